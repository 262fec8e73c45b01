"""Calibrated log loss and calibrated quadratic loss."""

from math import isnan

import numpy as np
import pytest
from scipy.special import expit

from evaluation import (
    bias_shift,
    calibrated_log_loss,
    calibrated_losses,
    calibrated_quadratic_loss,
    log_loss,
    mse,
)
from evaluation.metrics.calibration import log_odds

LOSSES = pytest.mark.parametrize("loss", ["log", "quadratic"])


def clicks(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 9, n)
    return p, (rng.random(n) < p).astype(float)


def test_the_calibrated_log_loss_by_hand():
    """Shift on V, log loss of what is shifted on R, plain log loss on R and on all."""
    p, y = clicks()
    promised = np.minimum(2 * p, 1)
    bias_rows = np.arange(len(p)) % 4 == 0

    result = calibrated_losses(promised, y, bias_rows=bias_rows)

    c = bias_shift(promised[bias_rows], y[bias_rows])
    q = expit(log_odds(promised[~bias_rows]) - c)
    assert result.shift == c
    assert result.value == pytest.approx(log_loss(q, y[~bias_rows]))
    assert result.plain == pytest.approx(log_loss(promised[~bias_rows], y[~bias_rows]))
    assert result.plain_on_all == pytest.approx(log_loss(promised, y))
    assert result.value < result.plain
    assert result.value == calibrated_log_loss(promised, y, bias_rows=bias_rows)
    assert np.array_equal(result.bias_rows, bias_rows)


def test_the_calibrated_quadratic_loss_by_hand():
    """Mean residual of V added on R; predictions outside [0, 1] are not clipped."""
    rng = np.random.default_rng(1)
    p = rng.normal(0, 2, 1_000)
    y = p - 3 + rng.normal(0, 1, 1_000)
    weights = rng.uniform(0, 2, 1_000)
    bias_rows = rng.random(1_000) < 0.3

    result = calibrated_losses(p, y, "quadratic", bias_rows=bias_rows, sample_weight=weights)

    c = np.average((y - p)[bias_rows], weights=weights[bias_rows])
    rest = ~bias_rows
    assert result.shift == pytest.approx(c)
    squares = (y - p - c)[rest] ** 2
    assert result.value == pytest.approx(np.average(squares, weights=weights[rest]))
    assert result.plain == pytest.approx(np.average((y - p)[rest] ** 2, weights=weights[rest]))
    assert result.value < 1.2 < 8 < result.plain


@LOSSES
def test_the_seed_draws_the_bias_rows(loss):
    """The share of the rows, another draw for another seed, the same for the same."""
    p, y = clicks()
    first, again, other = (
        calibrated_losses(p, y, loss, bias_share=0.2, seed=seed).bias_rows for seed in (0, 0, 1)
    )

    assert first.sum() == other.sum() == 800
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@LOSSES
def test_two_models_are_judged_on_the_same_rows(loss):
    """The draw looks at places only, never at the predictions."""
    p, y = clicks()

    rows = [calibrated_losses(each, y, loss).bias_rows for each in (p, p**2)]

    assert np.array_equal(*rows)


@pytest.mark.parametrize(("rows", "share", "size"), [(2, 0.9, 1), (3, 0.01, 1), (10, 0.26, 3)])
def test_neither_part_is_empty(rows, share, size):
    """At least one row for the bias, and not all."""
    result = calibrated_losses(np.zeros(rows), np.ones(rows), "quadratic", bias_share=share)

    assert result.bias_rows.sum() == size


@LOSSES
def test_rows_without_weight_are_in_neither_part(loss):
    """They may even be named as bias rows."""
    p, y = [0.2, 0.6, 0.5, 0.4, 0.3, 0.9], [1, 0, 0, 1, 1, 0]
    bias_rows, weights = [True, True, False, False, True, False], [1, 2, 1, 1, 0, 0]

    result = calibrated_losses(p, y, loss, bias_rows=bias_rows, sample_weight=weights)

    few = calibrated_losses(p[:4], y[:4], loss, bias_rows=bias_rows[:4], sample_weight=weights[:4])
    assert result.value == pytest.approx(few.value)
    assert result.plain_on_all == pytest.approx(few.plain_on_all)
    assert result.bias_rows.tolist() == [True, True, False, False, False, False]


@LOSSES
@pytest.mark.parametrize(
    "bias_rows", [[False] * 3, [True] * 3], ids=["no bias rows", "nothing to judge"]
)
def test_an_empty_part_leaves_it_undefined(loss, bias_rows):
    """nan, and the plain loss of what there is."""
    result = calibrated_losses([0.2, 0.4, 0.5], [0, 1, 0], loss, bias_rows=bias_rows)

    assert isnan(result.value)
    assert isnan(result.shift) == (not any(bias_rows))
    assert isnan(result.plain) == all(bias_rows)
    assert result.plain_on_all > 0


@LOSSES
def test_one_row_cannot_be_split(loss):
    """nan rather than a row judged by itself."""
    assert isnan(calibrated_losses([0.2], [1], loss).value)


@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("p", [[0.0, 0.5, 1.0, 0.5], [0.25] * 4], ids=["ends", "one value"])
def test_bias_rows_of_one_class_are_refused(outcome, p):
    """The error says that the shift is infinite, and what to do."""
    message = rf"outcomes are all {outcome} \(2 samples\): the shift .* infinite; fit it on samples"
    with pytest.raises(ValueError, match=message):
        calibrated_log_loss(p, [outcome] * 4, bias_rows=[True, True, False, False])


def test_certain_and_wrong_stays_finite():
    """Clipped before the shift, not after it."""
    p, y = [0.5, 0.5, 0.0, 1.0], [0, 1, 1, 0]

    value = calibrated_log_loss(p, y, bias_rows=[True, True, False, False])

    assert value == pytest.approx(log_loss(p[2:], y[2:]), rel=1e-6)


@pytest.mark.parametrize("weight", [1e-300, 1e306])
def test_weights_have_no_scale(weight):
    """Neither sums nor products leave the range of floats."""
    p, y, bias_rows = [0.2, 0.4, 0.1, 0.0], [0, 1, 1, 1], [True, True, False, False]
    for metric in (calibrated_log_loss, calibrated_quadratic_loss):
        value = metric(p, y, bias_rows=bias_rows, sample_weight=[weight] * 4)
        assert value == pytest.approx(metric(p, y, bias_rows=bias_rows))


def test_for_zeros_and_ones_the_plain_quadratic_loss_is_mse():
    """A fraction is a number here, and part of two classes there."""
    p, y = clicks(500)

    assert calibrated_losses(p, y, "quadratic").plain_on_all == pytest.approx(mse(p, y))


def test_the_largest_numbers_have_a_square():
    """1e150 is taken, and its quadratic loss is finite."""
    value = calibrated_quadratic_loss([1e150, -1e150], [-1e150, 1e150], bias_rows=[True, False])

    assert value == pytest.approx(16e300)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "absolute"}, "loss = 'absolute': must be one of log, quadratic"),
        ({"bias_share": 0.0}, r"bias_share = 0.0: must be between 0 and 1"),
        ({"bias_share": 1.0}, r"bias_share = 1.0: must be between 0 and 1"),
        ({"bias_share": float("nan")}, r"bias_share = nan: must be between 0 and 1"),
        ({"bias_rows": [1, 0]}, "bias_rows must be booleans of one dimension, not 1-d int64"),
        (
            {"bias_rows": [[True, False]]},
            "bias_rows must be booleans of one dimension, not 2-d bool",
        ),
        ({"bias_rows": [True]}, "equal lengths: probabilities has 2, bias_rows has 1"),
    ],
)
def test_bad_options_are_named(options, message):
    """ValueError with option, value and rule."""
    with pytest.raises(ValueError, match=message):
        calibrated_losses([0.2, 0.4], [0, 1], **options)
