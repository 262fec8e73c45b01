"""Bins of a lake: rows of Parquet that one core turns into bins in a second.

`sirocco lake bins` over a folder of files, as its executor `local` runs them, one after the other
in one process: read, checked, added to their cells, written, merged. Impressions of one hour a
file, 1,000 campaigns with Zipf traffic, scores that are all different, 2 % positives. `1 field`
keeps 8 values apart, `2 fields` 8 times 30. `rows/s a core` is by CPU time, all threads of the
process.

    python -m benchmarks lake [--large] [--json]
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.datasets.impressions import LogColumns
from app.datasets.options import Reading
from app.lake.bins import MERGED, BinsSettings, MergedBins
from app.lake.executors import run_here
from app.lake.tasks import partitions_of
from benchmarks.core.traffic import campaign_names
from benchmarks.figures import Cell, Table
from benchmarks.parts import Part
from evaluation.simulation.parts import START, times_in, zipf_shares

SEED, CAMPAIGNS = 11, 1_000
VALUES = {"device": 8, "country": 30}


def measure(rows: int = 4_000_000, files: int = 4) -> Table:
    """A row for each number of fields."""
    with TemporaryDirectory(prefix="sirocco-lake-") as folder:
        for number in range(files):
            pq.write_table(_impressions(rows // files, number), f"{folder}/{number}.parquet")
        return {
            f"{rows:,} rows, {_counted(count)}": _alone(folder, list(VALUES)[:count])
            for count in range(len(VALUES) + 1)
        }


def _counted(fields: int) -> str:
    return f"{fields} field{'' if fields == 1 else 's'}"


def _alone(folder: str, fields: Sequence[str]) -> dict[str, Cell]:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_made, folder, tuple(fields)).result()


def _made(folder: str, fields: tuple[str, ...]) -> dict[str, Cell]:
    settings = BinsSettings("click", LogColumns(fields=fields), Reading())
    with TemporaryDirectory(prefix="sirocco-lake-") as output:
        started, used = perf_counter(), process_time()
        tasks = [settings.task(partition, output) for partition in partitions_of(folder)]
        rows = sum(told["rows"] for told in run_here(tasks))
        MergedBins(output, [task.result for task in tasks], fields).write(MERGED)
        seconds = process_time() - used
        return {
            "rows": rows,
            "CPU s": seconds,
            "wall s": perf_counter() - started,
            "rows/s a core": rows / seconds,
            "MB of bins": (Path(output) / MERGED).stat().st_size / 1e6,
        }


def _impressions(rows: int, hour: int) -> pa.Table:
    rng = np.random.default_rng((SEED, hour))
    scores = rng.beta(1.0, 40.0, rows)
    columns = {
        "time": times_in(START, hour, rows, rng),
        "campaign": _coded(rng.choice(CAMPAIGNS, rows, p=zipf_shares(CAMPAIGNS)), _CAMPAIGNS),
        "score": scores,
        "outcome": (rng.random(rows) < 0.8 * scores).astype(np.int8),
    }
    for name, size in VALUES.items():
        columns[name] = _coded(rng.integers(0, size, rows), [f"{name}-{i}" for i in range(size)])
    return pa.table(columns)


_CAMPAIGNS = campaign_names(CAMPAIGNS)


def _coded(codes: "np.ndarray[tuple[int], np.dtype[np.int64]]", names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), list(names))


PART = Part("lake", "Bins of a lake", __doc__, measure, lambda: measure(rows=20_000_000, files=20))
