"""The impression log of a synthetic platform: something to try the measuring commands on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from scipy.special import expit, logit

from app.datasets.tables import require_parquet
from app.errors import Advance, CommandError
from app.whole_files import whole_file
from evaluation import Platform, PlatformHour

_USERS = 30_000
_NOISE_OF_CANDIDATE, _SPREAD_OF_BIDS, _SPREAD_IN_CAMPAIGN = 0.2, 0.7, 0.2
_CATEGORY = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    {
        "time": pa.float64(),
        "campaign": _CATEGORY,
        "score": pa.float64(),
        "candidate": pa.float64(),
        "outcome": pa.int8(),
        "bid": pa.float64(),
        "user": pa.int32(),
        "arm": _CATEGORY,
        "cost": pa.float64(),
    }
)


def write_impression_log(path: Path, platform: Platform, hours: int, advance: Advance) -> int:
    """Write the platform's first hours, a row group each; returns how many impressions.

    Beside what a log must have it holds the scores of a better model (`candidate`: the truth with
    noise), bids and costs, and the arms of an A/A test over users. The file stands there when all
    of it does.
    """
    require_parquet(path, "this log")
    with whole_file(path) as unfinished:
        impressions = 0
        with pyarrow.parquet.ParquetWriter(unfinished, SCHEMA) as writer:
            for table in _drawn(platform, hours):
                writer.write_table(table)
                impressions += int(table.num_rows)
                advance("")
        if not impressions:
            raise CommandError(f"{path}: there are no impressions to write")
    return impressions


def _drawn(platform: Platform, hours: int) -> Iterator[Any]:
    bids = np.random.default_rng((platform.seed, 2)).normal(
        0.0, _SPREAD_OF_BIDS, platform.campaigns
    )
    for hour in range(hours):
        rng = np.random.default_rng((platform.seed, 3, hour))
        yield _table(platform.hour(hour), np.exp(bids), rng)


def _table(hour: PlatformHour, levels: Any, rng: np.random.Generator) -> Any:
    events, n = hour.events, len(hour.events)
    bids = levels[events.rows] * np.exp(rng.normal(0.0, _SPREAD_IN_CAMPAIGN, n))
    users = rng.integers(0, _USERS, n)
    candidate = expit(logit(hour.truth) + rng.normal(0.0, _NOISE_OF_CANDIDATE, n))
    arms = pa.DictionaryArray.from_arrays((users % 2).astype(np.int32), ["control", "treatment"])
    columns = {
        "time": events.times,
        "campaign": pa.DictionaryArray.from_arrays(events.rows, list(events.campaigns)),
        "score": events.scores,
        "candidate": candidate,
        "outcome": events.outcomes.astype(np.int8),
        "bid": bids,
        "user": users.astype(np.int32),
        "arm": arms,
        "cost": bids * events.outcomes,
    }
    return pa.table(columns, schema=SCHEMA)
