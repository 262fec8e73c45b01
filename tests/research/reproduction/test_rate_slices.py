"""RIG and prediction error of slices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import prediction_error, rig
from research.reproduction.rate_curve import rate_slices
from tests.evaluation.cal_n_oracle import repeated
from tests.evaluation.predictions_of_kind import predictions


@given(predictions(), st.data())
def test_each_slice_as_if_it_were_alone(samples, data):
    """Weights, rates, RIG and prediction error of its samples."""
    p, y, weights = samples
    slices = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(p), max_size=len(p))))

    result = rate_slices(p, y, slices, sample_weight=weights)

    assert set(result.names) == set(np.repeat(slices, weights))
    for k, name in enumerate(result.names):
        chosen = slices == name
        rows = repeated(p[chosen], y[chosen], weights[chosen])
        assert result.weights[k] == len(rows[0])
        assert result.rates[k] == pytest.approx(rows[1].mean())
        assert result.probabilities[k] == pytest.approx(rows[0].mean())
        assert result.rigs[k] == pytest.approx(rig(*rows), nan_ok=True)
        error = prediction_error(*rows)
        assert result.prediction_errors[k] == pytest.approx(error, nan_ok=True)


@given(predictions(), st.randoms(use_true_random=False))
def test_row_order_is_of_no_effect(samples, random):
    """Slices come by rate, those of equal rate by name."""
    p, y, weights = samples
    slices = np.arange(len(p)) % 3
    order = list(range(len(p)))
    random.shuffle(order)

    first = rate_slices(p, y, slices, sample_weight=weights)
    second = rate_slices(p[order], y[order], slices[order], sample_weight=weights[order])

    assert list(first.rates) == sorted(first.rates)
    assert first.names == second.names
    assert first.rigs == pytest.approx(second.rigs, nan_ok=True)


def test_a_slice_for_each_probability():
    """Unequal lengths are an error, not broadcast."""
    with pytest.raises(ValueError, match="equal lengths: probabilities has 2, slices has 1"):
        rate_slices([0.5, 0.5], [0, 1], ["a"])


def test_without_samples_there_are_no_slices():
    """No error: a day may be silent."""
    assert rate_slices([], [], []).names == ()
    assert rate_slices([0.5], [1], ["a"], sample_weight=[0]).rigs.shape == (0,)
