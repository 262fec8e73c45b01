"""Isotonic regression against its definition as a problem of least squares."""

import numpy as np
import pytest
from hypothesis import given
from sklearn.isotonic import IsotonicRegression

from calibrators import Isotonic
from calibrators.bins.bins import WeightedSamples
from tests.calibrators.samples_of_kind import random_samples
from tests.calibrators.strategies import Floats


def min_max_means(tally: WeightedSamples) -> Floats:
    """The closed form of isotonic regression: max over starts of the min over ends of the mean."""
    m = len(tally.scores)
    fitted = np.empty(m)
    for i in range(m):
        fitted[i] = max(
            min(
                tally.positives[a : b + 1].sum() / tally.weights[a : b + 1].sum()
                for b in range(i, m)
            )
            for a in range(i + 1)
        )
    return fitted


@given(random_samples)
def test_each_distinct_score_gets_the_max_min_mean(drawn):
    tally = WeightedSamples.from_samples(drawn.scores, drawn.outcomes, drawn.weights)

    fitted = Isotonic().fit(drawn.scores, drawn.outcomes, drawn.weights)(tally.scores)

    assert fitted == pytest.approx(min_max_means(tally), abs=1e-9)


def test_scikit_learn_agrees_everywhere():
    """Between the scores linear, beyond the outermost flat, as there."""
    rng = np.random.default_rng(3)
    scores, outcomes = rng.random(500), rng.integers(0, 2, 500)
    weights, asked = rng.random(500), np.linspace(0, 1, 5001)
    reference = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1)

    expected = reference.fit(scores, outcomes, weights).predict(asked)
    fitted = Isotonic().fit(scores, outcomes, weights)(asked)

    assert fitted == pytest.approx(expected, abs=1e-9)


def test_flat_runs_keep_only_their_ends():
    scores = np.arange(1, 10) / 10

    calibration_map = Isotonic().fit(scores, [0, 0, 0, 0, 1, 1, 1, 1, 1])

    assert calibration_map.knots.tolist() == [0.0, 0.4, 0.5, 1.0]
    assert calibration_map.values.tolist() == [0.0, 0.0, 1.0, 1.0]
