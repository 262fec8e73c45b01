"""PCOC, log loss and AUC."""

from math import isnan, log

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from evaluation import auc, log_loss, pcoc
from tests.evaluation.predictions_of_kind import predictions

SCORES = [0.03, 0.02, 0.01, 0.005, 0.0001]
CLICKS = [300, 200, 100, 500, 100]
NO_CLICKS = [9_700, 9_800, 9_900, 99_500, 999_900]


def aggregated(metric, scores, clicks, no_clicks):
    weights = np.add(clicks, no_clicks)
    return metric(scores, clicks / weights, sample_weight=weights)


@pytest.mark.parametrize(
    ("scores", "clicks", "no_clicks", "expected"),
    [
        (SCORES, CLICKS, NO_CLICKS, 0.919324),
        (SCORES, CLICKS, [*NO_CLICKS[:4], 9_999_000], 0.953986),
        (SCORES, CLICKS, [97_000, 98_000, 99_000, 995_000, 9_999_000], 0.919324),
        (
            [*SCORES[:4], 0.00001],
            [3000, 2000, 1000, 500, 100],
            [97_000, 98_000, 99_000, 99_500, 9_999_900],
            0.979690,
        ),
        (
            [*SCORES[:4], 0.00001],
            [3000, 2000, 1000, 100, 500],
            [97_000, 98_000, 99_000, 9_999_900, 99_500],
            0.906945,
        ),
    ],
    ids=["2a", "2b", "4b", "3a", "3b"],
)
def test_auc_of_the_tables_of_paper_001(scores, clicks, no_clicks, expected):
    """Yi et al., Tables 2 to 4, from click and no-click counts."""
    assert aggregated(auc, scores, clicks, no_clicks) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("no_clicks", "prediction_error", "rig"),
    [
        (NO_CLICKS, 0.0, 0.250599),
        ([*NO_CLICKS[:4], 9_999_000], 0.749925, 0.339634),
        ([97_000, 98_000, 99_000, 995_000, 9_999_000], 8.876175, -0.460037),
    ],
    ids=["2a", "2b", "4b"],
)
def test_pcoc_and_log_loss_of_the_tables_of_paper_001(no_clicks, prediction_error, rig):
    """PE = PCOC - 1, and RIG = 1 - log loss / entropy of the click rate."""
    rate = sum(CLICKS) / (sum(CLICKS) + sum(no_clicks))
    entropy = -rate * log(rate) - (1 - rate) * log(1 - rate)

    ratio = aggregated(pcoc, SCORES, CLICKS, no_clicks)
    loss = aggregated(log_loss, SCORES, CLICKS, no_clicks)

    assert ratio - 1 == pytest.approx(prediction_error, abs=1e-6)
    assert 1 - loss / entropy == pytest.approx(rig, abs=1e-6)


@given(predictions(min_size=2))
def test_auc_equals_brute_force_and_scikit_learn(samples):
    """Pairs of a positive and a negative, ties one half."""
    p, y, _ = samples
    positives, negatives = p[y == 1], p[y == 0]
    if not (len(positives) and len(negatives)):
        assert isnan(auc(p, y))
        return
    wins = np.sign(positives[:, np.newaxis] - negatives) / 2 + 0.5

    assert auc(p, y) == pytest.approx(wins.mean())
    assert auc(p, y) == pytest.approx(roc_auc_score(y, p))


def test_log_loss_equals_scikit_learn():
    """On probabilities that need no clipping."""
    rng = np.random.default_rng(9)
    p, weights = rng.uniform(0.01, 0.99, 500), rng.uniform(0, 3, 500)
    y = rng.integers(0, 2, 500)

    expected = sklearn_log_loss(y, p, sample_weight=weights)

    assert log_loss(p, y, sample_weight=weights) == pytest.approx(expected)


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
