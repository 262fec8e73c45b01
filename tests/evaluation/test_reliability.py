"""The reliability diagram."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evaluation import cal_n, reliability_diagram
from evaluation.metrics.reliability import wilson_interval
from tests.evaluation.predictions_of_kind import predictions


@given(predictions(), st.integers(1, 8))
def test_bins_hold_all_samples(samples, n):
    """Weights, probabilities and outcomes add up to those of the samples."""
    p, y, weights = samples

    diagram = reliability_diagram(p, y, n, sample_weight=weights)

    assert diagram.weights.sum() == pytest.approx(weights.sum())
    assert diagram.weights @ diagram.probabilities == pytest.approx(weights @ p)
    assert diagram.weights @ diagram.rates == pytest.approx(weights @ y)
    assert len(diagram.weights) == min(n, weights.sum())
    assert np.all(np.diff(diagram.probabilities) >= -1e-12)


def test_the_bins_are_those_of_cal_n():
    """Cal-N is the root mean square error of the diagram's points."""
    rng = np.random.default_rng(10)
    p = rng.uniform(0.1, 0.9, 1_003)
    y = rng.random(1_003) < p**2
    diagram = reliability_diagram(p, y, 7)
    ratio = diagram.probabilities / diagram.rates

    value = np.sqrt(np.mean((np.maximum(ratio, 1 / ratio) - 1) ** 2))

    assert cal_n(p, y, 7) == pytest.approx(value)


def test_intervals_are_wilsons():
    """Against scipy's, for counts."""
    diagram = reliability_diagram([0.2, 0.6], [0.0, 0.7], 2, sample_weight=[50, 50])

    for rate, lower, upper in zip(diagram.rates, diagram.lower, diagram.upper, strict=True):
        interval = binomtest(round(rate * 50), 50).proportion_ci(0.95, method="wilson")
        assert (lower, upper) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_an_interval_of_nothing_or_all_ends_there():
    """Without the rounding that would leave a bin that is right outside of it."""
    weights = np.array([3.0, 200.0, 17.0])
    lower, _ = wilson_interval(np.zeros(3), weights, 0.95)
    _, upper = wilson_interval(np.ones(3), weights, 0.95)

    assert (lower.tolist(), upper.tolist()) == ([0.0] * 3, [1.0] * 3)


def test_without_samples_it_is_empty():
    """No bins rather than an error: an hour may be silent."""
    assert reliability_diagram([], []).rates.shape == (0,)
    assert reliability_diagram([0.5], [1], sample_weight=[0]).rates.shape == (0,)


def test_bad_options_are_named():
    """At least one bin; a confidence between 0 and 1."""
    with pytest.raises(ValueError, match="n = 0"):
        reliability_diagram([0.5], [1], 0)
    with pytest.raises(ValueError, match=r"confidence = 1.0: must be between 0 and 1"):
        reliability_diagram([0.5], [1], confidence=1.0)


@given(st.integers(1, 500), st.data())
def test_as_scipy_has_it(n, data):
    positives = data.draw(st.integers(0, n))

    lower, upper = wilson_interval(np.array([positives / n]), np.array([float(n)]), 0.95)

    expected = binomtest(positives, n).proportion_ci(0.95, method="wilson")
    assert (lower[0], upper[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("confidence", [0.0, 1.0, np.nan])
def test_a_confidence_lies_between_0_and_1(confidence):
    with pytest.raises(ValueError, match=r"confidence = .*: must be between 0 and 1"):
        wilson_interval(np.array([0.5]), np.array([1.0]), confidence)
