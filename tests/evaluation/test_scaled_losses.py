"""RIG, MSE, NMSE and MAE."""

from math import isnan, log

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import brier_score_loss

from evaluation import log_loss, mae, mse, nmse, rig
from tests.evaluation.predictions_of_kind import predictions
from tests.evaluation.tables_of_paper_001 import MAE, NMSE, RIG, TABLES, aggregated

METRICS = [rig, mse, nmse, mae]
EVERY_TABLE = pytest.mark.parametrize("table", TABLES)


@EVERY_TABLE
def test_the_tables_of_paper_001(table):
    """Yi et al., Tables 2 to 4, from click and no-click counts."""
    assert aggregated(rig, table) == pytest.approx(RIG[table], abs=1e-6)
    assert aggregated(nmse, table) == pytest.approx(NMSE[table], abs=1e-6)
    assert aggregated(mae, table) == pytest.approx(MAE[table], abs=1e-6)


@EVERY_TABLE
@pytest.mark.parametrize("metric", METRICS)
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


def test_mse_equals_scikit_learn():
    """Its Brier score."""
    rng = np.random.default_rng(9)
    p, weights = rng.uniform(0, 1, 500), rng.uniform(0, 3, 500)
    y = rng.integers(0, 2, 500)

    expected = brier_score_loss(y, p, sample_weight=weights)

    assert mse(p, y, sample_weight=weights) == pytest.approx(expected)


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


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_class_has_no_entropy(outcome):
    """RIG and NMSE are nan, MSE and MAE are defined."""
    p, y = [0.3, 0.6], [outcome, outcome]

    assert isnan(rig(p, y))
    assert isnan(nmse(p, y))
    assert mse(p, y) == pytest.approx(np.mean((outcome - np.array(p)) ** 2))
    assert mae(p, y) == pytest.approx(np.mean(np.abs(outcome - np.array(p))))


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_a_class_of_hardly_any_weight_is_a_class(outcome):
    """A rate of 1e-17 or 1 - 1e-17, which is 1 to the eye of a float."""
    p, y, weights = [0.5, 0.5], [outcome, 1.0 - outcome], [1e17, 1.0]
    entropy = 1e-17 * (1 + log(1e17))

    assert rig(p, y, sample_weight=weights) == pytest.approx(1 - log(2) / entropy)
    assert nmse(p, y, sample_weight=weights) == pytest.approx(0.25 / 1e-17)


def test_certain_and_wrong_is_clipped():
    """As the log loss is: -ln 1e-12."""
    assert rig([0.0, 1.0], [1, 0]) == pytest.approx(1 - 12 * log(10) / log(2), rel=1e-5)
