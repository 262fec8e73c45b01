"""PCOC, AUC, log loss, RIG, MSE, NMSE and MAE."""

from math import log

import numpy as np
import pytest
from hypothesis import assume, given
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from evaluation import auc, log_loss, mae, mse, nmse, pcoc, prediction_error, rig
from evaluation.metrics.calibration import _BLOCK
from tests.evaluation.predictions_of_kind import predictions
from tests.evaluation.tables_of_paper_001 import AUC, MAE, NMSE, PE, RIG, TABLES, aggregated

EVERY_TABLE = pytest.mark.parametrize("table", TABLES)


@EVERY_TABLE
@pytest.mark.parametrize(
    ("metric", "printed"),
    [(auc, AUC), (rig, RIG), (nmse, NMSE), (mae, MAE), (prediction_error, PE)],
)
def test_the_tables_of_paper_001(metric, printed, table):
    """Yi et al., Tables 2 to 4, from click and no-click counts."""
    tolerance = 5e-4 if (metric, table) == (prediction_error, "3b") else 1e-6
    assert aggregated(metric, table) == pytest.approx(printed[table], abs=tolerance)


@EVERY_TABLE
@pytest.mark.parametrize("metric", [rig, mse, nmse, mae])
def test_counts_equal_their_impressions(metric, table):
    """A hundredth of each count, row by row, is what weights and rates give."""
    scores, clicks, no_clicks = TABLES[table]
    few = [
        (score, c // 100, n // 10_000)
        for score, c, n in zip(scores, clicks, no_clicks, strict=True)
    ]
    p = np.repeat(scores, [c + n for _, c, n in few])
    y = np.concatenate([[1] * c + [0] * n for _, c, n in few])
    sizes = np.array([c + n for _, c, n in few])
    rates = np.array([c for _, c, _ in few]) / sizes

    assert metric(scores, rates, sample_weight=sizes) == pytest.approx(metric(p, y), rel=1e-9)


@given(predictions(min_size=2))
def test_auc_equals_scikit_learn(samples):
    """Of both classes; `test_auc.py` counts the pairs."""
    p, y, _ = samples
    assume(0 < y.sum() < len(y))

    assert auc(p, y) == pytest.approx(roc_auc_score(y, p))


@pytest.mark.parametrize(
    ("ours", "theirs"), [(log_loss, sklearn_log_loss), (mse, brier_score_loss)]
)
def test_losses_equal_scikit_learns(ours, theirs):
    """On probabilities that need no clipping."""
    rng = np.random.default_rng(9)
    p, weights = rng.uniform(0.01, 0.99, 500), rng.uniform(0, 3, 500)
    y = rng.integers(0, 2, 500)

    assert ours(p, y, sample_weight=weights) == pytest.approx(theirs(y, p, sample_weight=weights))


@pytest.mark.parametrize("n", [_BLOCK - 1, _BLOCK, _BLOCK + 1, 3 * _BLOCK + 7])
def test_log_loss_leaves_no_sample_out(n):
    """Of more than are worked on at a time: the mean over all rows, whatever the number of them."""
    rng = np.random.default_rng(n)
    p, y, weights = rng.uniform(0.01, 0.99, n), rng.integers(0, 2, n), rng.uniform(0, 2, n)

    expected = np.average(-np.log(np.where(y == 1, p, 1 - p)), weights=weights)

    assert log_loss(p, y, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


def test_log_loss_clips_certainty():
    """A click at probability 0 costs -ln 1e-12, not infinity."""
    assert log_loss([0.0], [1]) == pytest.approx(12 * log(10))
    assert log_loss([1.0], [0]) == pytest.approx(12 * log(10), rel=1e-5)


def test_fractional_outcomes_are_parts_of_both_classes():
    """Outcome 1/4 with weight 4 is one positive and three negatives."""
    fractional = ([0.2, 0.7], [0.25, 0.5])
    rows = ([0.2] * 4 + [0.7] * 4, [1, 0, 0, 0, 1, 1, 0, 0])

    for metric in (pcoc, log_loss, auc):
        assert metric(*fractional, sample_weight=[4, 4]) == pytest.approx(metric(*rows))


@given(predictions())
def test_who_knows_only_the_click_rate_gains_nothing(samples):
    """RIG is 0 and NMSE 1 at p = rate."""
    _, y, weights = samples
    if not 0 < weights @ y < weights.sum():
        return
    rate = np.full(len(y), (weights @ y) / weights.sum())

    assert rig(rate, y, sample_weight=weights) == pytest.approx(0.0, abs=1e-12)
    assert nmse(rate, y, sample_weight=weights) == pytest.approx(1.0)


@given(predictions(min_size=2))
def test_squared_and_absolute_errors_of_zeros_and_ones(samples):
    """The definitions, sample by sample."""
    p, y, _ = samples

    assert mse(p, y) == pytest.approx(np.mean((y - p) ** 2))
    assert mae(p, y) == pytest.approx(np.mean(np.abs(y - p)))


def test_rig_and_nmse_by_definition():
    """1 - log loss / entropy, and MSE / (rate (1 - rate))."""
    rng = np.random.default_rng(4)
    p = rng.beta(1, 9, 2_000)
    y = rng.random(2_000) < p
    rate = y.mean()
    entropy = -rate * log(rate) - (1 - rate) * log(1 - rate)

    assert rig(p, y) == pytest.approx(1 - log_loss(p, y) / entropy)
    assert nmse(p, y) == pytest.approx(mse(p, y) / (rate * (1 - rate)))


def test_mae_prefers_the_model_that_never_promises_a_click():
    """Table 2: p = 0 has the click rate, half of what the calibrated model has."""
    nothing = aggregated(lambda p, y, **weights: mae(np.zeros(len(p)), y, **weights), "2a")

    assert nothing == pytest.approx(1.062e-3, abs=1e-6)
    assert nothing < aggregated(mae, "2a") / 1.9


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_a_class_of_hardly_any_weight_is_a_class(outcome):
    """A rate of 1e-17 or 1 - 1e-17, which is 1 to the eye of a float."""
    p, y, weights = [0.5, 0.5], [outcome, 1.0 - outcome], [1e17, 1.0]
    entropy = 1e-17 * (1 + log(1e17))

    assert rig(p, y, sample_weight=weights) == pytest.approx(1 - log(2) / entropy)
    assert nmse(p, y, sample_weight=weights) == pytest.approx(0.25 / 1e-17)


def test_rig_clips_certainty():
    """As the log loss is: -ln 1e-12."""
    assert rig([0.0, 1.0], [1, 0]) == pytest.approx(1 - 12 * log(10) / log(2), rel=1e-5)
