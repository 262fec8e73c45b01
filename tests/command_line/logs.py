"""Small logs of the synthetic platform."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from evaluation import EventTable, Platform

START = 1_767_225_600.0


def events(hours: int = 6, impressions: int = 400) -> EventTable:
    """Four campaigns with enough clicks for maps of their own; the third hour is silent."""
    platform = Platform(campaigns=4, impressions_per_hour=impressions, ctr=0.1, start=START)
    table = platform.hours(0, hours).events
    return table.select(table.hours != table.hours.min() + 2)


def columns(table: EventTable) -> dict[str, Any]:
    """The columns of a log, under their default names."""
    return {
        "time": table.times,
        "campaign": np.array(table.campaigns)[table.rows],
        "score": table.scores,
        "outcome": table.outcomes,
    }


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    """The columns as Parquet, CSV or JSON lines, whichever the name says."""
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path, **options)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_bytes(b"\n".join(map(orjson.dumps, table.to_pylist())))
    return path


def write_log(path: Path, table: EventTable) -> Path:
    """The events, not in order of time."""
    order = np.random.default_rng(0).permutation(len(table))
    return write(path, columns(table.select(order)))
