"""A tally puts equal scores together; order and ties cannot matter any more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Bins
from calibrators.bins.bins import WeightedSamples
from tests.calibrators import strategies


def columns(tally: WeightedSamples) -> list[list[float]]:
    return [tally.scores.tolist(), tally.weights.tolist(), tally.positives.tolist()]


def test_equal_scores_are_put_together_and_empty_ones_left_out():
    tally = WeightedSamples.from_samples(
        [0.4, 0.1, -0.0, 0.4, 0.2], [1, 0.5, 1, 0, 1], [1, 2, 3, 4, 0]
    )

    assert columns(tally) == [[0.0, 0.1, 0.4], [3.0, 2.0, 5.0], [3.0, 1.0, 1.0]]
    assert (tally.total_weight, tally.positives.sum()) == (10.0, 5.0)


@given(st.lists(strategies.samples, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_change_a_bit(samples, random):
    """Not even in the last digit of a float sum."""
    samples.append((0.5, 0.3, 1.0))
    shuffled = random.sample(samples, len(samples))

    tallies = [WeightedSamples.from_samples(*np.array(rows).T) for rows in (samples, shuffled)]

    assert columns(tallies[0]) == columns(tallies[1])


@given(st.lists(st.tuples(st.sampled_from([-0.0, 0.0, 0.1, 0.4, 1.0]), st.booleans()), min_size=1))
def test_counted_samples_add_up_as_a_dictionary_has_them(samples):
    """Outcomes of 0 and 1 with weights of 1 go a shorter way, to the same sums."""
    counts: dict[float, list[float]] = {score: [0.0, 0.0] for score, _ in samples}
    for score, positive in samples:
        counts[score][0] += 1.0
        counts[score][1] += positive
    scores, outcomes = np.array(samples).T

    tally = WeightedSamples.from_samples(scores, outcomes)

    expected = [(score + 0.0, *counts[score]) for score in sorted(counts)]
    assert list(zip(*columns(tally), strict=True)) == expected
    assert not np.signbit(tally.scores).any()
    doubled = WeightedSamples.from_samples(scores, outcomes, np.full(len(scores), 2.0))
    assert columns(doubled) == [columns(tally)[0], *(2 * np.array(columns(tally)[1:])).tolist()]


@given(st.lists(strategies.samples, max_size=20))
def test_a_tally_of_bins_ascends_strictly(samples):
    samples.append((0.5, 0.3, 1.0))

    tally = WeightedSamples.from_bins(Bins.from_samples(*np.array(samples).T))

    assert (np.diff(tally.scores) > 0).all()
    assert (tally.positives <= tally.weights).all()


@pytest.mark.parametrize("weights", [[0.0], [-0.0]])
def test_nothing_to_fit_from(weights):
    with pytest.raises(ValueError, match="nothing to fit from"):
        WeightedSamples.from_samples([0.5], [1], weights)
    with pytest.raises(ValueError, match="nothing to fit from"):
        WeightedSamples.from_samples([], [])
    with pytest.raises(ValueError, match="nothing to fit from"):
        WeightedSamples.from_bins(Bins.empty())
