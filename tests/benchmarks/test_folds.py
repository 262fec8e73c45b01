"""Folds that are divided: every event is counted once, by however many folders."""

from benchmarks.core.folds import WORKERS, folds


def test_each_number_of_workers_has_its_figures():
    """It raises where an event is lost or doubled."""
    found = folds(2_000)

    assert len(found) == len(WORKERS)
    for row in found.values():
        assert 0.0 < row["busiest, s"] <= row["all, s"]
