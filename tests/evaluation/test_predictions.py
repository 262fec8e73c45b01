"""Checked predictions: the sort that needs no index, and the one that does."""

import numpy as np
import pytest
from hypothesis import given

from evaluation.metrics.predictions import Predictions
from tests.evaluation.predictions_of_kind import predictions


@given(predictions())
def test_the_sort_of_plain_samples_has_the_same_runs(samples):
    """Sorted with or without an index: equal probabilities, weights and positives."""
    p, y, _ = samples
    by_index, plain = (Predictions.check(p, y, None) for _ in range(2))

    ordered = plain.ordered

    assert ordered is not plain
    np.testing.assert_array_equal(ordered.runs.probabilities, by_index.runs.probabilities)
    np.testing.assert_array_equal(ordered.runs.weights, by_index.runs.weights)
    np.testing.assert_array_equal(ordered.run_positives, by_index.run_positives)


@pytest.mark.parametrize(
    ("y", "weights"), [([0, 1], [1, 2]), ([0.5, 1], [1, 1]), ([0, 1], [0.0, 1.0])]
)
def test_other_samples_are_sorted_as_ever(y, weights):
    """Weights and fractions do not fit beside the probability."""
    samples = Predictions.check([0.3, 0.1], y, weights)

    assert samples.ordered is samples


def test_a_sort_that_was_done_is_not_done_again():
    """Whoever needed the index has sorted for all."""
    samples = Predictions.check([0.3, 0.1], [0, 1], None)

    assert len(samples.runs.weights) == 2
    assert samples.ordered is samples


def test_negative_zero_is_zero():
    """-0.0 passes as a probability, and is tied with 0.0."""
    samples = Predictions.check([0.0, -0.0, 0.0], [0, 1, 0], None)

    assert samples.ordered.runs.weights.tolist() == [3.0]
