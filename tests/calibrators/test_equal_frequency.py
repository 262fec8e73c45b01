"""Cuts into bins of equal frequency: sizes differ by at most one, nothing is dropped."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators.methods.equal_frequency import bin_count, equal_cuts


@given(st.integers(1, 10**6), st.integers(1, 300))
def test_whole_totals_are_cut_after_whole_samples(total: int, wanted: int) -> None:
    bins = min(total, wanted)
    cuts = equal_cuts(float(total), bins)

    sizes = np.diff(cuts)
    assert (cuts[0], cuts[-1], len(cuts)) == (0.0, total, bins + 1)
    assert cuts.tolist() == [(2 * k * total + bins) // (2 * bins) for k in range(bins + 1)]
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


@given(st.integers(1, 4 * 10**5), st.integers(1, 300))
def test_any_other_total_is_cut_at_the_float_nearest_to_the_exact_share(
    quarters: int, bins: int
) -> None:
    """An exact share that is a float is met exactly: a cut may not slip past the end of a run."""
    total = quarters / 4 + 1 / 1024

    cuts = equal_cuts(total, bins)

    assert cuts.tolist() == [float(Fraction(total) * k / bins) for k in range(bins + 1)]


@pytest.mark.parametrize(
    ("total", "size", "bins"),
    [(10_900, 1000, 10), (999, 1000, 1), (0.5, 1, 1), (2000, 1000, 2), (7, 1.5, 4), (3, 1, 3)],
)
def test_there_are_as_many_bins_as_line_3_says_and_at_least_one(
    total: float, size: float, bins: int
) -> None:
    assert bin_count(float(total), size) == bins
