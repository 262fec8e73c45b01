"""Multicalibration of many rows and fields: seconds, memory, and how near cells come to rows.

Rows of a synthetic log, 2 % positives, all scores different, five fields of 4, 8, 30, 100 and
1,000 values; segments are those of all fields and all their pairs, but for those whose positives
vary by less than 5. `rows` sorts all rows for each of the 16 families of segments, `cells` adds
them to at most 4,096 cells of each segment, as `sirocco evaluate --fields` does with a log too long
to be held. Each runs in a process of its own; `peak MB` is the most memory it held, of which the
columns of the log are `log MB`. `off by, %` is how far the sigmas of the worst segment differ from
those of `rows`: of `calibrated` rows they are those of chance, the hardest case for cells; of
`wrong` ones a pair of values is 30 % too low.

    python -m benchmarks fields [--large] [--json]
"""

import resource
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import perf_counter, process_time

import numpy as np

from benchmarks.figures import Cell, Table, middle
from benchmarks.parts import Part
from calibrators.samples import Floats
from evaluation.fields.field_log import FieldLog
from evaluation.fields.multicalibration import multicalibration
from evaluation.fields.segments import SegmentLimits, ValueColumn
from evaluation.metrics.predictions import Predictions

SEED = 3
VALUES = {"device": 4, "placement": 8, "country": 30, "format": 100, "advertiser": 1_000}
RATE, SPREAD, LIFT = 0.02, 0.9, 1.3
LIMITS = SegmentLimits(variance=5.0)
BATCH, HELD = 1 << 17, 2_000_000
MEGABYTE = 1e6
Columns = dict[str, ValueColumn]


def measure(sizes: Sequence[int] = (10_000_000,)) -> Table:
    """A row for each size and way."""
    rows: Table = {}
    for count in sizes:
        for truth in ("calibrated", "wrong"):
            exact = _alone("rows", count, truth)
            cells = _alone("cells", count, truth)
            cells["off by, %"] = 100.0 * abs(middle(cells["sigmas"]) / middle(exact["sigmas"]) - 1)
            rows[f"{count:,} rows, {truth}: rows"] = exact
            rows[f"{count:,} rows, {truth}: cells"] = cells
    return rows


def measure_large() -> Table:
    """30 million rows too."""
    return measure((10_000_000, 30_000_000))


def _alone(way: str, count: int, truth: str) -> dict[str, Cell]:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_measured, way, count, truth).result()


def _measured(way: str, count: int, truth: str) -> dict[str, Cell]:
    rows, fields = _log(count, LIFT if truth == "wrong" else 1.0)
    started, used = perf_counter(), process_time()
    if way == "rows":
        found = multicalibration(rows.probabilities, rows.outcomes, fields, limits=LIMITS)
    else:
        held = min(HELD, count // 5)
        log = FieldLog(list(fields), lambda name: fields[name].names, LIMITS, held)
        for first in range(0, count, BATCH):
            part = slice(first, first + BATCH)
            columns = (rows.probabilities, rows.outcomes, rows.weights)
            batch = Predictions(*(column[part] for column in columns))
            log.add(batch, {n: c.numbers[part] for n, c in fields.items()})
        found = log.measured().multicalibration
    return {
        "wall s": perf_counter() - started,
        "CPU s": process_time() - used,
        "peak MB": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE,
        "log MB": (16 * count + sum(c.numbers.nbytes for c in fields.values())) / MEGABYTE,
        "segments": found.segments,
        "sigmas": found.sigmas,
    }


def _log(count: int, lift: float) -> tuple[Predictions, Columns]:
    rng = np.random.default_rng(SEED)
    fields = {
        name: ValueColumn(
            [f"{name}-{i}" for i in range(size)],
            (size * rng.random(count, np.float32) ** 1.5).astype(np.int16),
        )
        for name, size in VALUES.items()
    }
    p: Floats = 1.0 / (1.0 + np.exp(-rng.normal(np.log(RATE), SPREAD, count)))
    wrong = (fields["device"].numbers == 1) & (fields["placement"].numbers == 3)
    y = (rng.random(count) < np.where(wrong, lift, 1.0) * p).astype(np.float64)
    return Predictions(p, y, np.ones(count)), fields


PART = Part("fields", "Multicalibration of fields", __doc__, measure, measure_large)
