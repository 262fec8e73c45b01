"""Losses of many models at once are those that the metrics give for one."""

import numpy as np
import pytest
from scipy.special import expit

from evaluation import calibrated_losses, log_loss, mse
from research.reproduction.regressions import (
    LOSSES,
    EvaluationRows,
    bias_shifts,
    log_losses,
    quadratic_losses,
)

BIAS_ROWS = 150
V = np.arange(700) < BIAS_ROWS


def rows(seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(-0.2, 1.0, (700, 3))
    outcomes = (rng.random(700) < expit(features.sum(axis=1) - 1.0)).astype(float)
    return EvaluationRows.of(features, outcomes, BIAS_ROWS)


def models(count=20, used=3, seed=1):
    return np.random.default_rng(seed).normal(0.7, 0.3, (count, used + 1))


def test_scores_are_linear_in_the_first_features():
    """A model of two features does not see the third."""
    found = rows()
    two = models(used=2)
    padded = np.column_stack((two[:, :2], np.zeros(len(two)), two[:, 2]))

    np.testing.assert_allclose(found.scores(two), found.scores(padded), atol=1e-12)
    np.testing.assert_allclose(found.scores(padded), padded @ found.columns, atol=1e-12)


def test_log_losses_are_the_metrics():
    """Plain on all rows, plain on R, calibrated on R: `evaluation.calibrated_losses` of a model."""
    found = rows()

    batched = log_losses(models(), found)

    for losses, scores in zip(batched, found.scores(models()), strict=True):
        p, y = expit(scores), found.outcomes
        single = calibrated_losses(p, y, "log", bias_rows=V)
        expected = (single.plain_on_all, single.plain, single.value)
        assert losses == pytest.approx(expected, rel=1e-9)
        assert losses[0] == pytest.approx(log_loss(p, y), rel=1e-9)
        assert losses[1] == pytest.approx(log_loss(p[~V], y[~V]), rel=1e-9)


def test_bias_shifts_are_the_metrics():
    """c of `evaluation.calibrated_losses`; then the probabilities add up to the outcomes."""
    found = rows()
    scores, y = found.scores(models())[:, :BIAS_ROWS], found.outcomes[:BIAS_ROWS]

    shifts = bias_shifts(scores, y)

    np.testing.assert_allclose(expit(scores - shifts[:, None]).sum(axis=1), y.sum(), atol=1e-8)
    for shift, model in zip(shifts, found.scores(models()), strict=True):
        single = calibrated_losses(expit(model), found.outcomes, "log", bias_rows=V)
        assert shift == pytest.approx(single.shift, abs=1e-9)


def test_quadratic_losses_are_the_metrics():
    """The bias is the mean residual of V."""
    found = rows()

    batched = quadratic_losses(models(), found)

    for losses, scores in zip(batched, found.scores(models()), strict=True):
        single = calibrated_losses(scores, found.outcomes, "quadratic", bias_rows=V)
        expected = (single.plain_on_all, single.plain, single.value)
        assert losses == pytest.approx(expected, rel=1e-9)


def test_the_plain_quadratic_loss_is_the_mean_square_error():
    """Where the predictions are probabilities."""
    found = rows()
    small = models() / 100.0 + np.array([0.0, 0.0, 0.0, 0.5])
    p = found.scores(small)

    losses = quadratic_losses(small, found)[:, 0]

    assert losses == pytest.approx([mse(q, found.outcomes) for q in p], rel=1e-9)


@pytest.mark.parametrize("losses", [log_losses, quadratic_losses])
def test_more_models_than_fit_into_a_chunk(losses):
    """Chunks are invisible, and the order stays."""
    found = rows()
    one_by_one = np.concatenate([losses(model[None], found) for model in models(50)])

    batched = losses(models(50), found)

    assert batched.shape == (50, len(LOSSES))
    np.testing.assert_allclose(batched, one_by_one, rtol=1e-12)


def test_extreme_scores_do_not_overflow():
    """A log-odds of 1000 costs 1000 where it is wrong, and nothing where it is right."""
    outcomes = np.array([1.0, 0.0, 1.0, 1.0])
    found = EvaluationRows.of(np.array([[0.0], [0.0], [1.0], [-1.0]]), outcomes, 2)

    assert log_losses(np.array([[1000.0, 0.0]]), found)[0, 1] == pytest.approx(500.0)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_outcomes_all_equal_have_no_shift(value):
    """It would be infinite."""
    with pytest.raises(ValueError, match="all are equal"):
        bias_shifts(np.zeros((1, 4)), np.full(4, value))


def test_scores_that_are_not_numbers_have_no_shift():
    """Rather an error than a loop without end."""
    with pytest.raises(ValueError, match="finds no shift"):
        bias_shifts(np.full((1, 2), np.nan), np.array([0.0, 1.0]))
