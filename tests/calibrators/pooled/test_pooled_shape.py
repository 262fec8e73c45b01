"""The shape against scipy's optimum of the whole penalised likelihood, and its shrinkage."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from calibrators import BinsTable
from calibrators.pooled.fit import Shape
from calibrators.pooled.hierarchy import Priors, Variances
from calibrators.pooled.window import Window
from calibrators.samples import Floats
from tests.calibrators.pooled.pooled_traffic import drawn_hours, history, shape_of, table

PRIORS = Priors(
    Variances(0.1, 0.05, 0.02, 0.01),
    Variances(0.05, 0.02, 0.01, 0.01),
    Variances(1.0, 0.25, 0.01, 0.02),
)
GROUPS = {"a0000": "x", "a0001": "y", "a0002": "x"}


def optimum(shape: Shape) -> list[Floats]:
    """Curves of the campaigns at the mode, by minimising the negative log posterior."""
    knots, basis = shape.coordinates.knots, shape.coordinates.basis
    block, groups = shape.blocks[0], len(shape.tree.groups)
    hours, size, steepness = block.hours, knots.count, shape.coordinates.steepness
    counts, positives = hours.weighted(np.ones(hours.shape))
    at = np.array([np.interp(block.log_odds, knots.positions, row) for row in np.eye(size)]).T

    def penalty(values: Floats, variances: Variances, offset: float) -> float:
        spread = np.concatenate(([variances.level, variances.slope], variances.of_waves(steepness)))
        own = values.copy()
        own[0] += offset * own[1]
        return float(np.sum(own**2 / spread) / 2)

    def curves(packed: Floats) -> Floats:
        rows = packed.reshape(-1, size)
        parents = np.vstack((rows[1 : 1 + groups], np.zeros(size)))[block.groups]
        return np.asarray((rows[0] + parents + rows[1 + groups :]) @ basis.T)

    def loss(packed: Floats) -> float:
        eta = block.log_odds + np.sum(at * curves(packed)[hours.rows], axis=1)
        fit = float(np.sum(counts * np.logaddexp(0, eta) - positives * eta))
        rows = packed.reshape(-1, size)
        total = fit + penalty(rows[0], shape.priors.target, 0.0)
        total += sum(penalty(row, shape.priors.group, 0.0) for row in rows[1 : 1 + groups])
        own = zip(rows[1 + groups :], block.offsets, strict=True)
        return total + sum(penalty(row, shape.priors.campaign, offset) for row, offset in own)

    found = minimize(
        loss,
        np.zeros((1 + groups + len(block)) * size),
        method="L-BFGS-B",
        tol=1e-14,
        options={"maxiter": 5000, "maxfun": 10**6, "gtol": 1e-7},
    )
    return list(curves(found.x))


@pytest.mark.slow
@pytest.mark.parametrize("groups", [GROUPS, {}], ids=["groups", "no groups"])
def test_the_mode_is_that_of_a_general_optimiser(groups):
    """Joint Newton steps and L-BFGS on the full penalised likelihood meet."""
    hours = drawn_hours([0.4, -0.6, 0.1], [30, 5, 200], hours=6, seed=2)
    shape = shape_of(history(hours), groups.get, PRIORS)

    shape.settle()

    expected = optimum(shape)
    assert shape.curves(shape.blocks[0]) == pytest.approx(np.array(expected), abs=2e-3)


def test_what_scores_predict_weighs_on_the_two_knots_around_them():
    """As much as it is, in the middle of where it is."""
    window = Window.of(history(drawn_hours([0.0, 0.5], [40, 20])), 24, None)
    knots = window.knots()
    (block,) = window.blocks
    inside = np.clip(block.log_odds, knots.positions[0], knots.positions[-1])

    mass = window.mass(knots)

    assert mass.sum() == pytest.approx(block.predicted.sum())
    assert mass @ knots.positions == pytest.approx(block.predicted @ inside)


def test_a_campaign_without_data_has_its_parents_curve():
    """One impression says next to nothing."""
    hours: dict[int, BinsTable] = drawn_hours([0.5] * 10 + [0.0], [200] * 10 + [0], seed=3)
    hours[100] = BinsTable.merge([hours[100], table(["b"], [0], [0.05], [1e-6], [0])])
    shape = shape_of(history(hours), lambda _: None, PRIORS)
    shape.settle()
    curves = shape.curves(shape.blocks[0])

    parent = shape.tree.target @ shape.coordinates.basis.T
    assert curves[-1] == pytest.approx(parent, abs=1e-4)
    assert shape.blocks[0].campaigns[-1] == "b"


def test_a_campaign_with_much_data_has_its_own_rate():
    """A million impressions of one score outweigh any prior."""
    hours = {100: table(["a", "b"], [0, 1], [0.05, 0.05], [1e6, 1e6], [1e5, 2e4])}
    shape = shape_of(history(hours), lambda _: None, PRIORS)
    shape.settle()
    block = shape.blocks[0]

    assert block.probabilities(shape.curves(block)) == pytest.approx([0.1, 0.02], rel=1e-3)


def test_campaigns_of_a_group_lean_on_each_other():
    """A thin campaign follows its group's rate rather than the other group's."""
    levels, sizes = [0.8] * 6 + [-0.8] * 6, [300] * 5 + [2] + [300] * 6
    hours = drawn_hours(levels, sizes, seed=4)
    groups = {f"a{number:04d}": "up" if number < 6 else "down" for number in range(12)}
    shape = shape_of(history(hours), groups.get, PRIORS)
    shape.fit()
    thin = shape.curves(shape.blocks[0])[5].mean()

    assert thin == pytest.approx(0.8, abs=0.3)
    assert shape.priors.group.level > 5 * shape.priors.campaign.level


def test_the_priors_find_how_much_campaigns_differ():
    """200 campaigns with levels of standard deviation 0.5 and slopes of 0.2."""
    rng = np.random.default_rng(5)
    levels, slopes = rng.normal(0, 0.5, 200), rng.normal(0, 0.2, 200)
    hours = drawn_hours(list(levels), [100] * 200, slopes=list(slopes), seed=5)
    shape = shape_of(history(hours), lambda _: None, Priors())
    shape.fit()

    assert np.sqrt(shape.priors.campaign.level) == pytest.approx(0.5, rel=0.2)
    assert np.sqrt(shape.priors.campaign.slope) == pytest.approx(0.2, rel=0.35)


def test_one_campaign_of_clicks_only_moves_the_others_little():
    """An attacked campaign far out neither drags the target's curve nor loosens the prior."""
    rng = np.random.default_rng(6)
    levels = list(rng.normal(0, 0.2, 40))
    calm = shape_of(history(drawn_hours([*levels, 0.0], [200] * 41)), lambda _: None, Priors())
    attacked = shape_of(history(drawn_hours([*levels, 12.0], [200] * 41)), lambda _: None, Priors())
    calm.fit()
    attacked.fit()
    basis = calm.coordinates.basis

    moved = (attacked.tree.target - calm.tree.target) @ basis.T
    middle = slice(4, -4)
    assert np.abs(moved[middle]).max() < 0.15
    assert attacked.priors.campaign.level < 2 * calm.priors.campaign.level
    own = attacked.curves(attacked.blocks[0])[-1]
    assert expit(attacked.coordinates.knots.positions + own)[middle].min() > 0.9


def test_no_curve_moves_with_the_variances_frozen_at_the_mode():
    """Settling again changes nothing."""
    shape = shape_of(history(drawn_hours([0.3, -0.3], [50, 20])), lambda _: None, PRIORS)
    shape.settle()
    before = shape.curves(shape.blocks[0])
    shape.priors = shape.priors._replace()
    shape.settle()

    assert shape.curves(shape.blocks[0]) == pytest.approx(before, abs=1e-9)
