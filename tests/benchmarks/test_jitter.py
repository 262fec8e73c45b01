"""How steady a core is: what the soak is to be read against."""

import numpy as np
import pytest

from benchmarks.soak.figures import stall_row, work_row
from benchmarks.soak.jitter import stall_seconds, waits, work_seconds


def test_a_fixed_piece_of_work_tells_how_steady_the_core_is():
    """One repetition in a hundred that takes ten times as long shows in the tail."""
    taken = work_seconds(0.05)
    assert taken.size > 0
    assert (taken > 0).all()

    row = work_row(np.repeat([0.001, 0.010], [990, 10]))
    assert (row["p50 ms"], row["p99.9 / p50"]) == pytest.approx((1.0, 10.0))


def test_a_moment_waits_for_the_end_of_its_gap():
    """Beside a gap, at its end and without any gap it waits for nothing."""
    gaps = np.array([[1.0, 3.0], [5.0, 6.0]])
    moments = np.array([0.0, 1.0, 2.5, 3.0, 4.0, 5.5, 6.0, 7.0])
    assert waits(gaps, moments).tolist() == [0.0, 2.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.0]
    assert not waits(np.zeros((0, 2)), moments).any()


def test_a_processor_that_stood_still_shows_in_the_tail(monkeypatch):
    """A loop that goes round every microsecond, but for one gap of a tenth of its time."""
    clock = iter(np.r_[np.arange(0.0, 0.2, 1e-6), np.arange(0.24, 1.0, 1e-6)].tolist())
    monkeypatch.setattr("benchmarks.soak.jitter.perf_counter", lambda: next(clock))

    row = stall_row(stall_seconds(0.05, moments=10_000))

    assert row["p50 ms"] == 0.0
    assert row["p99 ms"] == pytest.approx(36.0, abs=0.1)
    assert row["p99.9 ms"] == pytest.approx(39.6, abs=0.1)
