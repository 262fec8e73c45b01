"""Equal-frequency cuts where weights are so heavy that counting them could overflow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators.methods.equal_frequency import bin_count, equal_cuts


@given(st.integers(2**40, 2**53 - 1), st.integers(2**18, 2**20))
def test_whole_totals_are_cut_after_whole_samples_without_overflow(total: int, bins: int) -> None:
    """Integers of Python, which cannot overflow, are the oracle."""
    cuts = equal_cuts(float(total), bins)

    for k in (0, 1, bins // 3, bins - 1, bins):
        assert cuts[k] == (2 * k * total + bins) // (2 * bins)
    assert (np.diff(cuts) > 0).all()


@pytest.mark.parametrize("total", [2.0**53, 1e30, 1e308, 1.7e308, 1e-300])
def test_totals_of_any_size_are_cut_evenly(total: float) -> None:
    cuts = equal_cuts(total, 1000)

    assert cuts / total == pytest.approx(np.arange(1001) / 1000, rel=1e-12)


@pytest.mark.parametrize(
    ("total", "distinct", "bins"),
    [(1e12, 3, 10**9), (1e308, 3, 2**20), (1e308, 2**21, 2**21), (5e6, 3, 5000)],
)
def test_there_are_never_more_bins_than_memory_holds(
    total: float, distinct: int, bins: int
) -> None:
    assert bin_count(total, 1000, distinct) == min(bins, max(2**20, distinct))
