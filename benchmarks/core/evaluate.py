"""`sirocco evaluate` on a long log: the whole command, from the file to its tables.

The log is Parquet in a temporary folder: time, campaign, country, score, outcome and bid of a
week, 1,000 campaigns, 2 % positives. No two scores are the same, which is the hardest case: none
can be taken together without loss. The command runs as a process of its own and prints every
metric of all rows, by campaign, by hour and by score; `by country` it is asked for that cut too.
`peak MB` is the most memory that it held.

`CSV` is the same log as text, and `coarse` a log too long to be held, whose scores are taken
together in cells; its other rows are exact.

    python -m benchmarks evaluate [--large] [--json]
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.figures import Cell, Table
from benchmarks.parts import Part

SEED = 11
START, HOURS = 1_767_225_600, 168
CAMPAIGNS, COUNTRIES = 1_000, 30
RATE, SPREAD = 0.02, 0.9
CHUNK = 1 << 20
MEGABYTE = 1e6


@dataclass(frozen=True)
class Sizes:
    """How many rows the logs have; 0 is no such log."""

    parquet: Sequence[int] = (1_000_000, 10_000_000)
    csv: int = 1_000_000


LARGE = Sizes((1_000_000, 10_000_000, 50_000_000), 10_000_000)


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each log and way of asking."""
    sizes = sizes or Sizes()
    rows: Table = {}
    with TemporaryDirectory() as folder:
        for count in sizes.parquet:
            path = Path(folder) / "log.parquet"
            log = _written(path, count, pyarrow.parquet.ParquetWriter)
            rows[f"{count:,} rows, Parquet"] = _run(log)
            rows[f"{count:,} rows, Parquet, by country"] = _run(log, "--by", "country")
        if sizes.csv:
            log = _written(Path(folder) / "log.csv", sizes.csv, pyarrow.csv.CSVWriter)
            rows[f"{sizes.csv:,} rows, CSV"] = _run(log)
    return rows


def measure_large() -> Table:
    """50 million rows too, and a CSV of 10 million."""
    return measure(LARGE)


def _run(log: Path, *options: str) -> Mapping[str, Cell]:
    command = [sys.executable, "-P", "-m", "app.cli", "evaluate", str(log), *options]
    started = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return {
        "wall s": seconds,
        "CPU s": used.ru_utime + used.ru_stime,
        "peak MB": 1024 * used.ru_maxrss / MEGABYTE,
        "log MB": log.stat().st_size / MEGABYTE,
    }


def _written(path: Path, count: int, file: Callable[..., Any]) -> Path:
    chunks = _chunks(count)
    first = next(chunks)
    with file(path, first.schema) as writer:
        writer.write_table(first)
        for chunk in chunks:
            writer.write_table(chunk)
    return path


def _chunks(count: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(SEED)
    names = pa.array([f"campaign-{number:04d}" for number in range(CAMPAIGNS)])
    countries = pa.array([f"country-{number:02d}" for number in range(COUNTRIES)])
    bias = rng.normal(0.0, 0.2, CAMPAIGNS)
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first)
        # Zipf-like traffic: a few campaigns have most of it.
        campaigns = (CAMPAIGNS * rng.random(size) ** 2).astype(np.int64)
        odds = rng.normal(np.log(RATE), SPREAD, size)
        truth = 1.0 / (1.0 + np.exp(bias[campaigns] - odds))
        places = (first + np.arange(size)) / count
        yield pa.table(
            {
                "time": START + (3600 * HOURS * places).astype(np.int64),
                "campaign": names.take(pa.array(campaigns)),
                "country": countries.take(pa.array(rng.integers(0, COUNTRIES, size))),
                "score": 1.0 / (1.0 + np.exp(-odds)),
                "outcome": (rng.random(size) < truth).astype(np.int8),
                "bid": rng.lognormal(0.0, 0.5, size),
            }
        )


PART = Part("evaluate", "Evaluation of a log", __doc__, measure, measure_large)
