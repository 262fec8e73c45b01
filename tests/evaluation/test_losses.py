"""PCOC, log loss and AUC."""

from math import log

import pytest

from evaluation import auc, log_loss, pcoc
from tests.evaluation.tables_of_paper_001 import AUC, TABLES, aggregated


@pytest.mark.parametrize("table", TABLES)
def test_auc_of_the_tables_of_paper_001(table):
    """Yi et al., Tables 2 to 4, from click and no-click counts."""
    assert aggregated(auc, table) == pytest.approx(AUC[table], abs=1e-6)


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
