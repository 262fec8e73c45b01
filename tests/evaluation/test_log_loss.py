"""Log loss of more samples than are worked on at a time."""

import numpy as np
import pytest

from evaluation import log_loss
from evaluation.metrics.calibration import _BLOCK


@pytest.mark.parametrize("n", [_BLOCK - 1, _BLOCK, _BLOCK + 1, 3 * _BLOCK + 7])
def test_blocks_leave_no_sample_out(n):
    """The mean over all rows, whatever the number of them."""
    rng = np.random.default_rng(n)
    p, y, weights = rng.uniform(0.01, 0.99, n), rng.integers(0, 2, n), rng.uniform(0, 2, n)

    expected = np.average(-np.log(np.where(y == 1, p, 1 - p)), weights=weights)

    assert log_loss(p, y, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
