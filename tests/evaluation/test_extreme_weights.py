"""Weights far from 1: refused where they cannot be summed, of no effect where only shares count."""

import numpy as np
import pytest

from evaluation import auc, cal_n, gc_n, log_loss, pcoc

P, Y = [0.1, 0.3, 0.3, 0.9], [0, 0, 1, 1]


@pytest.mark.parametrize("metric", [auc, cal_n, log_loss, pcoc])
def test_weights_without_a_finite_sum_are_refused(metric):
    with pytest.raises(ValueError, match="sum of sample_weight = inf"):
        metric(P, Y, sample_weight=[1e308] * 4)


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e12, 1e200])
def test_auc_does_not_depend_on_the_scale_of_the_weights(scale):
    weights = np.array([1.0, 2.0, 3.0, 4.0])

    assert auc(P, Y, sample_weight=scale * weights) == pytest.approx(
        auc(P, Y, sample_weight=weights), rel=1e-12
    )


@pytest.mark.parametrize("n", [0, -1, 2.5, float("nan")])
def test_a_number_of_bins_is_whole_and_at_least_1(n):
    with pytest.raises(ValueError, match="number of bins"):
        cal_n(P, Y, n)
    with pytest.raises(ValueError, match="number of bins"):
        gc_n(P, Y, ["a"] * 4, n)
