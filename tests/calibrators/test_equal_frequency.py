"""Cuts into bins of equal frequency: sizes differ by at most one, nothing is dropped."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators.methods.equal_frequency import bin_counts, inner_cuts
from calibrators.samples import Floats


def equal_cuts(total: float, bins: int) -> Floats:
    """Those of one campaign, with 0 and the total."""
    campaigns, cuts = inner_cuts(np.array([total]), np.array([bins]))
    assert not campaigns.any()
    return np.concatenate(([0.0], cuts, [total]))


def bin_count(total: float, size: float, distinct: int = 1) -> int:
    return int(bin_counts(np.array([total]), size, np.array([distinct]))[0])


@given(st.integers(1, 10**6), st.integers(1, 300))
def test_whole_totals_are_cut_after_whole_samples(total, wanted):
    bins = min(total, wanted)
    cuts = equal_cuts(float(total), bins)

    sizes = np.diff(cuts)
    assert (cuts[0], cuts[-1], len(cuts)) == (0.0, total, bins + 1)
    assert cuts.tolist() == [(2 * k * total + bins) // (2 * bins) for k in range(bins + 1)]
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


@given(st.integers(1, 4 * 10**5), st.integers(1, 300))
def test_any_other_total_is_cut_at_the_float_nearest_to_the_exact_share(quarters, bins):
    """An exact share that is a float is met exactly: a cut may not slip past the end of a run."""
    total = quarters / 4 + 1 / 1024

    cuts = equal_cuts(total, bins)

    assert cuts.tolist() == [float(Fraction(total) * k / bins) for k in range(bins + 1)]


@pytest.mark.parametrize(
    ("total", "size", "bins"),
    [(10_900, 1000, 10), (999, 1000, 1), (0.5, 1, 1), (2000, 1000, 2), (7, 1.5, 4), (3, 1, 3)],
)
def test_there_are_as_many_bins_as_line_3_says_and_at_least_one(total, size, bins):
    assert bin_count(float(total), size) == bins


@given(st.integers(2**40, 2**53 - 1), st.integers(2**18, 2**20))
def test_whole_totals_are_cut_after_whole_samples_without_overflow(total, bins):
    """Integers of Python, which cannot overflow, are the oracle."""
    cuts = equal_cuts(float(total), bins)

    for k in (0, 1, bins // 3, bins - 1, bins):
        assert cuts[k] == (2 * k * total + bins) // (2 * bins)
    assert (np.diff(cuts) > 0).all()


@pytest.mark.parametrize("total", [2.0**53, 1e30, 1e308, 1.7e308, 1e-300])
def test_totals_of_any_size_are_cut_evenly(total):
    cuts = equal_cuts(total, 1000)

    assert cuts / total == pytest.approx(np.arange(1001) / 1000, rel=1e-12)


@pytest.mark.parametrize(
    ("total", "distinct", "bins"),
    [(1e12, 3, 10**9), (1e308, 3, 2**20), (1e308, 2**21, 2**21), (5e6, 3, 5000)],
)
def test_there_are_never_more_bins_than_memory_holds(total, distinct, bins):
    assert bin_count(total, 1000, distinct) == min(bins, max(2**20, distinct))
