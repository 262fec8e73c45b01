"""The scorecard's row."""

import numpy as np
import pytest

from calibrators import BinsTable
from evaluation import Platform, auc, gc_n, log_loss, pcoc, scorecard

COLUMNS = ["n", "positives", "pcoc", "log_loss", "auc", "gc_3", "gc_4", "gc_5"]


def test_every_number_is_that_of_its_metric():
    """The columns of the contract, in their order, from the public functions."""
    events = Platform(campaigns=4, impressions_per_hour=3_000, ctr=0.1).hour(0).events
    columns = (events.scores, events.outcomes)

    row = scorecard(*columns, events.rows)

    assert list(row) == COLUMNS
    assert row == pytest.approx(
        {
            "n": len(events),
            "positives": events.outcomes.sum(),
            "pcoc": pcoc(*columns),
            "log_loss": log_loss(*columns),
            "auc": auc(*columns),
            **{f"gc_{n}": gc_n(*columns, events.rows, n) for n in (3, 4, 5)},
        }
    )


def test_bins_are_weighted_samples():
    """A table of bins scores as its raw samples do, but for cuts inside a cell (GC-N: 5 %)."""
    events = Platform(campaigns=3, impressions_per_hour=20_000, ctr=0.1).hour(0).events
    table = BinsTable.from_columns(
        events.campaigns,
        events.rows.astype(np.int64),
        events.scores,
        np.ones(len(events)),
        events.outcomes,
    )
    scores, outcomes, weights, rows = table.samples()

    from_bins = scorecard(scores, outcomes, rows, sample_weight=weights)

    from_rows = scorecard(events.scores, events.outcomes, events.rows)
    for name in COLUMNS:
        tolerance = 0.05 if name.startswith("gc") else 2e-4
        assert from_bins[name] == pytest.approx(from_rows[name], rel=tolerance)


def test_nothing_to_judge_is_nan_throughout():
    """Counts are 0, all else undefined."""
    row = scorecard([], [], [])

    assert (row["n"], row["positives"]) == (0.0, 0.0)
    assert all(np.isnan(row[name]) for name in COLUMNS[2:])
