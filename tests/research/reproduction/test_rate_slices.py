"""RIG and prediction error of slices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

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


def test_rig_of_calibrated_scores_rises_with_the_rate():
    """One spread of log-odds, its middle moved: the printed claim that RIG falls is not general."""
    z = np.linspace(-3, 3, 401)
    density = np.exp(-(z**2) / 2)
    middles = [-7.0, -4.0, -2.0, 0.0]
    truth = np.concatenate([expit(middle + 1.2 * z) for middle in middles])

    result = rate_slices(
        truth, truth, np.repeat(middles, len(z)), sample_weight=np.tile(density, len(middles))
    )

    assert result.names == tuple(middles)
    assert np.all(np.diff(result.rigs) > 0)
    assert result.rigs[-1] == pytest.approx(0.177, abs=0.003)
    assert result.prediction_errors == pytest.approx([0.0] * 4, abs=1e-12)


def test_rig_of_a_fixed_model_is_highest_where_it_is_right():
    """The base rate moves, the model does not: RIG falls on both sides of prediction error 0."""
    z = np.linspace(-3, 3, 401)
    moves = [-1.0, -0.5, 0.0, 0.5, 1.0]
    truth = np.concatenate([expit(-3.0 + move + 1.2 * z) for move in moves])
    model = np.tile(expit(-3.0 + 1.2 * z), len(moves))

    result = rate_slices(model, truth, np.repeat(moves, len(z)))

    assert int(np.argmax(result.rigs)) == int(np.argmin(np.abs(result.prediction_errors))) == 2
    assert np.all(np.diff(result.prediction_errors) < 0)


@pytest.mark.parametrize("weight", [1e-300, 1e307])
def test_weights_have_no_scale(weight):
    """Neither slice leaves the range of floats."""
    small = rate_slices([0.1, 0.4], [0.2, 0.3], ["a", "b"], sample_weight=[weight] * 2)

    plain = rate_slices([0.1, 0.4], [0.2, 0.3], ["a", "b"])

    assert small.rigs == pytest.approx(plain.rigs)


def test_a_slice_for_each_probability():
    """Unequal lengths are an error, not broadcast."""
    with pytest.raises(ValueError, match="equal lengths: probabilities has 2, slices has 1"):
        rate_slices([0.5, 0.5], [0, 1], ["a"])


def test_without_samples_there_are_no_slices():
    """No error: a day may be silent."""
    assert rate_slices([], [], []).names == ()
    assert rate_slices([0.5], [1], ["a"], sample_weight=[0]).rigs.shape == (0,)
