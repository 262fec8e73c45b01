"""A small lake: impressions in parts whose hours overlap."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

FIRST_HOUR = 490_896
DEVICES = ("ios", "android", "")


def impressions(rows: int, seed: int, hours: int = 6) -> Any:
    """Rows in any order of time; some scores are 0 and 1."""
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(rows) < 0.02, rng.integers(0, 2, rows), rng.beta(1, 30, rows))
    campaigns = [f"campaign-{number}" for number in rng.zipf(1.7, rows) % 30]
    return pa.table(
        {
            "time": 3600.0 * (FIRST_HOUR + hours * rng.random(rows)),
            "campaign": campaigns,
            "score": scores,
            "outcome": (rng.random(rows) < scores).astype(np.float64),
            "device": [DEVICES[place] for place in rng.integers(0, 3, rows)],
        }
    )


@pytest.fixture
def log(tmp_path) -> Path:
    """A folder of four parts."""
    folder = tmp_path / "log"
    folder.mkdir()
    for part in range(4):
        pyarrow.parquet.write_table(impressions(1500, part), folder / f"part-{part}.parquet")
    return folder
