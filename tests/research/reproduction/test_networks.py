"""One-epoch networks side by side, and how they are compared."""

import numpy as np
import pytest
from scipy.special import expit

from research.reproduction import Conclusion
from research.reproduction.networks import EXPERIMENT, Recipe, _Weights, one_epoch_probabilities


def loss(weights, x, y, penalty):
    """Mean log loss of each network and the penalty, with plain loops, summed over networks."""
    total = 0.0
    first, first_bias, second, second_bias = weights
    for net in range(len(first)):
        for row, outcome in zip(x[net], y[net], strict=True):
            active = np.maximum(row @ first[net] + first_bias[net, 0], 0.0)
            p = expit(active @ second[net][:, 0] + second_bias[net, 0, 0])
            total -= np.log(p if outcome else 1.0 - p) / len(x[net])
    return total + penalty / 2.0 * ((first**2).sum() + (second**2).sum())


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradients_are_those_of_the_loss(penalty):
    """Against differences of a loop over networks and rows."""
    rng = np.random.default_rng(1)
    weights = _Weights.draw(2, 3, 4, rng)
    for array in weights.arrays:
        array += rng.normal(0.0, 0.3, array.shape)
    x, y = rng.normal(size=(2, 5, 3)), (rng.random((2, 5)) < 0.4).astype(float)

    found = weights.gradients(x, y, penalty)

    for array, gradient in zip(weights.arrays, found, strict=True):
        for place in np.ndindex(array.shape):
            kept, step = array[place], 1e-6
            array[place] = kept + step
            above = loss(weights.arrays, x, y, penalty)
            array[place] = kept - step
            below = loss(weights.arrays, x, y, penalty)
            array[place] = kept
            assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_networks_learn_and_differ():
    """Each finds the rule, no two end alike, and the same seed gives the same networks."""
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(25_600, 3))
    truth = expit(2.0 * inputs[:, 0] - 1.0)
    outcomes = (rng.random(len(inputs)) < truth).astype(float)
    asked = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])

    p, again = (
        one_epoch_probabilities(Recipe(8), inputs, outcomes, asked, 5, np.random.default_rng(3))
        for _ in range(2)
    )

    assert np.array_equal(p, again)
    assert len(np.unique(p[:, 0])) == 5
    assert p == pytest.approx(np.tile(expit([1.0, -3.0]), (5, 1)), abs=0.12)


def test_a_network_does_not_see_what_its_recipe_leaves_out():
    """Other values in the hidden columns change nothing."""
    rng = np.random.default_rng(4)
    inputs, outcomes = rng.normal(size=(256, 3)), rng.integers(0, 2, 256).astype(float)
    other = inputs.copy()
    other[:, 1] = 9.0
    recipe = Recipe(4, features=(0, 2))

    p, blind = (
        one_epoch_probabilities(recipe, x, outcomes, x[:4], 2, np.random.default_rng(5))
        for x in (inputs, other)
    )

    assert np.array_equal(p, blind)


@pytest.fixture(scope="module")
def found(shares):
    """The quick run."""
    return EXPERIMENT.run(quick=True, seed=0, progress=shares.append)


def test_a_small_run_judges_nothing(found):
    """Twelve networks on one data set are too few."""
    assert {check.verdict for check in found.checks} == {Conclusion.SHOWN, Conclusion.NOT_CHECKED}


def test_the_better_recipe_has_the_better_accuracy(found):
    """The mean log loss says which it is; its share of won pairs is above a coin's."""
    plain = [c.ours for c in found.checks if c.what.endswith(": log loss") and c.paper_text]
    calibrated = [c.ours for c in found.checks if c.what.endswith(": calibrated log loss")][:-1]

    assert len(plain) == len(calibrated) == 4
    assert min(plain) > 50.0
    gain = next(c.ours for c in found.checks if c.what.startswith("mean gain"))
    assert gain == pytest.approx(np.mean(calibrated) - np.mean(plain))


def test_the_summary_is_that_of_the_rows(found):
    """The smallest cut of the nets of 32 units, and how many pairs gain."""
    ours = {check.what: check.ours for check in found.checks}
    cuts = [value for what, value in ours.items() if what.endswith("32 units: cut")]

    assert len(cuts) == 9
    assert ours["smallest cut of the standard deviation, 32 units"] == min(cuts)
    assert ours["mean cut of the standard deviation, 32 units"] == pytest.approx(np.mean(cuts))


def test_progress_runs_to_the_end(found, shares):
    """One step for each pair of recipes."""
    assert shares == [0.2, 0.4, 0.6, 0.8, 1.0]
