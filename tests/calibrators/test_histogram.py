"""Histogram binning against the definition, sample by sample."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Histogram
from tests.calibrators import sir_oracle
from tests.calibrators.samples_of_kind import Drawn
from tests.calibrators.strategies import Floats


def means_of_bins(scores: Floats, outcomes: Floats, bin_size: int) -> dict[float, float]:
    """By score: the mean outcome of its bin, in exact numbers."""
    samples = Drawn(scores, outcomes, np.ones(len(scores))).exact
    bins = sir_oracle.bins_of_samples(samples, Fraction(bin_size))
    return {score: float(b.v) for score in scores.tolist() for b in bins if b.l <= score <= b.u}


@given(st.integers(0, 2**32), st.sampled_from([4, 30, 1000]), st.integers(1, 12))
def test_each_score_gets_the_mean_outcome_of_its_bin(seed, distinct, bin_size):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    scores, outcomes = rng.integers(0, distinct + 1, n) / distinct, rng.integers(0, 9, n) / 8

    calibration_map = Histogram(bin_size).fit(scores, outcomes)

    expected = means_of_bins(scores, outcomes, bin_size)
    asked = list(expected)
    assert calibration_map(asked) == pytest.approx(np.array(list(expected.values())), abs=1e-12)


def test_a_score_between_two_bins_belongs_to_the_nearer():
    calibration_map = Histogram(bin_size=2).fit([0.1, 0.2, 0.6, 0.8], [0, 1, 1, 1])

    assert calibration_map([0.0, 0.39, 0.41, 1.0]).tolist() == [0.5, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("bin_size", [0, 0.5, -1, float("inf"), float("nan")])
def test_a_bin_without_a_sample_or_an_end_is_refused(bin_size):
    with pytest.raises(ValueError, match=f"bin_size = {bin_size}"):
        Histogram(bin_size)
