"""Errors by score quantile."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evaluation import log_loss, prediction_error, score_quantiles
from tests.evaluation.cal_n_oracle import bin_sums, repeated
from tests.evaluation.predictions_of_kind import predictions


@given(predictions(), st.integers(1, 8))
def test_bins_are_those_of_numpys_array_split(samples, n):
    """Samples one by one, those of equal probability sharing their outcomes."""
    p, y = repeated(*samples)
    if len(p) < n:
        return
    sums = bin_sums(p, y, n)
    sizes = [len(part) for part in np.array_split(p, n)]

    result = score_quantiles(samples[0], samples[1], n, sample_weight=samples[2])

    assert result.weights == pytest.approx(sizes)
    assert result.weights * result.probabilities == pytest.approx([float(a) for a, _ in sums])
    assert result.weights * result.rates == pytest.approx([float(b) for _, b in sums])


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


def test_intervals_are_wilsons():
    """Against scipy's, for counts."""
    result = score_quantiles([0.2, 0.6], [0.0, 0.7], 2, confidence=0.9, sample_weight=[50, 50])

    for rate, lower, upper in zip(result.rates, result.lower, result.upper, strict=True):
        interval = binomtest(round(rate * 50), 50).proportion_ci(0.9, method="wilson")
        assert (lower, upper) == pytest.approx((interval.low, interval.high), abs=1e-12)


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


def test_without_samples_it_is_empty():
    """No bins rather than an error: an hour may be silent."""
    assert score_quantiles([], []).rates.shape == (0,)
    assert score_quantiles([0.5], [1], sample_weight=[0]).loss_shares.shape == (0,)


def test_bad_options_are_named():
    """At least one bin; a confidence between 0 and 1."""
    with pytest.raises(ValueError, match="n = 0"):
        score_quantiles([0.5], [1], 0)
    with pytest.raises(ValueError, match=r"confidence = 1.0: must be between 0 and 1"):
        score_quantiles([0.5], [1], confidence=1.0)
