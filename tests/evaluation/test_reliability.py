"""Reliability diagrams and errors by score quantile: bins of equal frequency, with intervals."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evaluation import (
    log_loss,
    prediction_error,
    quantile_rates,
    reliability_diagram,
    score_quantiles,
)
from evaluation.metrics.reliability import wilson_interval
from tests.evaluation.cal_n_oracle import bin_sums, repeated
from tests.evaluation.predictions_of_kind import predictions

FIFTY = {"confidence": 0.9, "sample_weight": [50, 50]}
BOTH = pytest.mark.parametrize("binned", [reliability_diagram, score_quantiles])


@BOTH
@given(samples=predictions(), n=st.integers(1, 8))
def test_bins_are_those_of_numpys_array_split(binned, samples, n):
    """Samples one by one, those of equal probability sharing their outcomes; of fewer samples than
    bins each has one."""
    p, y = repeated(*samples)
    if not len(p):
        return
    bins = min(n, len(p))
    sums = bin_sums(p, y, bins)

    found = binned(samples[0], samples[1], n, sample_weight=samples[2])

    assert found.weights == pytest.approx([len(part) for part in np.array_split(p, bins)])
    assert found.weights * found.probabilities == pytest.approx([float(a) for a, _ in sums])
    assert found.weights * found.rates == pytest.approx([float(b) for _, b in sums])


@pytest.mark.parametrize(
    ("found", "samples"),
    [
        (reliability_diagram([0.2, 0.6], [0.0, 0.7], 2, **FIFTY), 50),
        (score_quantiles([0.2, 0.6], [0.0, 0.7], 2, **FIFTY), 50),
        (quantile_rates([1] * 4 + [2] * 4, [1, 0, 0, 0, 1, 1, 1, 0], 2, confidence=0.9), 4),
    ],
    ids=lambda found: type(found).__name__,
)
def test_intervals_are_wilsons(found, samples):
    """Against scipy's, for counts."""
    for rate, lower, upper in zip(found.rates, found.lower, found.upper, strict=True):
        interval = binomtest(round(rate * samples), samples).proportion_ci(0.9, method="wilson")
        assert (lower, upper) == pytest.approx((interval.low, interval.high), abs=1e-12)


@given(st.integers(1, 500), st.sampled_from([0.9, 0.95]), st.data())
def test_as_scipy_has_it(n, confidence, data):
    positives = data.draw(st.integers(0, n))

    lower, upper = wilson_interval(np.array([positives / n]), np.array([float(n)]), confidence)

    expected = binomtest(positives, n).proportion_ci(confidence, method="wilson")
    assert (lower[0], upper[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_an_interval_of_nothing_or_all_ends_there():
    """Without the rounding that would leave a bin that is right outside of it."""
    weights = np.array([3.0, 200.0, 17.0])
    lower, _ = wilson_interval(np.zeros(3), weights, 0.95)
    _, upper = wilson_interval(np.ones(3), weights, 0.95)

    assert (lower.tolist(), upper.tolist()) == ([0.0] * 3, [1.0] * 3)


@BOTH
@pytest.mark.parametrize("confidence", [0.0, 1.0, np.nan])
def test_a_confidence_lies_between_0_and_1(binned, confidence):
    with pytest.raises(ValueError, match=r"confidence = .*: must be between 0 and 1"):
        binned([0.5], [1], confidence=confidence)


@BOTH
def test_there_is_a_bin_at_least(binned):
    with pytest.raises(ValueError, match="n = 0"):
        binned([0.5], [1], 0)


@BOTH
def test_without_samples_there_are_no_bins(binned):
    """No error: an hour may be silent."""
    for empty in (binned([], []), binned([0.5], [1], sample_weight=[0])):
        assert {len(getattr(empty, column.name)) for column in fields(empty)} == {0}


@given(predictions(), st.integers(1, 8))
def test_shares_of_the_loss_sum_to_1(samples, n):
    """Each at least 0; with one bin it is all of it."""
    p, y, weights = samples
    if not weights.sum():
        return

    shares = score_quantiles(p, y, n, sample_weight=weights).loss_shares

    assert shares.sum() == pytest.approx(1.0)
    assert np.all(shares >= 0.0)


@given(predictions(), st.randoms(use_true_random=False))
def test_row_order_is_of_no_effect(samples, random):
    """Not even inside a run of equal probabilities."""
    p, y, weights = samples
    order = list(range(len(p)))
    random.shuffle(order)

    first = score_quantiles(p, y, 4, sample_weight=weights)
    second = score_quantiles(p[order], y[order], 4, sample_weight=weights[order])

    assert first.rates == pytest.approx(second.rates)
    assert first.loss_shares == pytest.approx(second.loss_shares)
    assert first.prediction_errors == pytest.approx(second.prediction_errors, nan_ok=True)


def test_each_bin_as_if_it_were_alone():
    """Prediction error and share of the log loss, where no run is divided."""
    rng = np.random.default_rng(3)
    p = np.sort(rng.beta(1, 5, 1_000))
    y = rng.random(1_000) < p**1.5
    parts = np.array_split(np.arange(1_000), 10)

    result = score_quantiles(p, y)

    errors = [prediction_error(p[part], y[part]) for part in parts]
    losses = [log_loss(p[part], y[part]) * len(part) for part in parts]
    assert result.prediction_errors == pytest.approx(errors)
    assert result.loss_shares == pytest.approx(losses / np.sum(losses))


def test_a_bin_without_positives_or_promise():
    """Infinite when something was promised, nan when nothing was."""
    errors = score_quantiles([0.0, 0.1, 0.5], [0, 0, 1], 3).prediction_errors

    assert np.isnan(errors[0])
    assert errors[1] == np.inf
    assert errors[2] == -0.5


@pytest.mark.parametrize("weight", [1e-100, 1.0, 1e307])
def test_weights_have_no_scale(weight):
    """Shares, rates and errors are free of it."""
    result = score_quantiles([0.1, 0.4], [0.2, 0.3], 2, sample_weight=[weight, weight])

    assert result.prediction_errors == pytest.approx([-0.5, 1 / 3])
    assert result.loss_shares == pytest.approx([0.4628, 0.5372], abs=1e-4)
