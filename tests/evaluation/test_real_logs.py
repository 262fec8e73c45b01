"""The backtest on real logs, which are not part of the project and lie beside it."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from calibrators import SmoothedIsotonic
from evaluation import EventTable, backtest

LOGS = Path(__file__).parents[2].parent / "shared" / "data"


def read_log(name):
    path = LOGS / name
    if not path.exists():
        pytest.skip(f"{name} is missing: put the real logs into ../shared/data")
    log = parquet.read_table(path)
    seconds = log["time"].to_numpy().astype("datetime64[us]").astype(np.int64) / 1e6
    scores, outcomes = (log[column].to_numpy() for column in ("score", "outcome"))
    return EventTable.from_columns(seconds, log["campaign"].to_pylist(), scores, outcomes)


@pytest.mark.parametrize("raw_samples", [False, True], ids=["bins", "raw_samples"])
@pytest.mark.parametrize(
    ("name", "window_hours", "bin_size"),
    [("ipinyou_1458.parquet", 6, 1000), ("amexpert_2018.parquet", 24, 200)],
    ids=["ipinyou", "amexpert"],
)
def test_sir_calibrates_real_logs(name, window_hours, bin_size, raw_samples):
    """GC-3 of SIR is below that of the scores as they came, on bins and on raw samples."""
    table = read_log(name)
    calibrators = {"sir": SmoothedIsotonic(bin_size=bin_size)}

    result = backtest(table, calibrators, window_hours=window_hours, raw_samples=raw_samples)

    assert result.scorecards["sir"]["gc_3"] < result.scorecards["raw"]["gc_3"]
