"""PCOC, log loss and AUC."""

from math import log

import numpy as np
import pytest
from hypothesis import assume, given
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from evaluation import auc, log_loss, pcoc
from evaluation.metrics.calibration import _BLOCK
from tests.evaluation.predictions_of_kind import predictions
from tests.evaluation.tables_of_paper_001 import AUC, TABLES, aggregated


@pytest.mark.parametrize("table", TABLES)
def test_auc_of_the_tables_of_paper_001(table):
    """Yi et al., Tables 2 to 4, from click and no-click counts."""
    assert aggregated(auc, table) == pytest.approx(AUC[table], abs=1e-6)


@given(predictions(min_size=2))
def test_auc_equals_scikit_learn(samples):
    """Of both classes; `test_auc.py` counts the pairs."""
    p, y, _ = samples
    assume(0 < y.sum() < len(y))

    assert auc(p, y) == pytest.approx(roc_auc_score(y, p))


def test_log_loss_equals_scikit_learn():
    """On probabilities that need no clipping."""
    rng = np.random.default_rng(9)
    p, weights = rng.uniform(0.01, 0.99, 500), rng.uniform(0, 3, 500)
    y = rng.integers(0, 2, 500)

    expected = sklearn_log_loss(y, p, sample_weight=weights)

    assert log_loss(p, y, sample_weight=weights) == pytest.approx(expected)


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
