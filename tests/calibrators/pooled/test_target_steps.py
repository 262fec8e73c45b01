"""Steps of the target's curve are found where they are, and nowhere else."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calibrators import BinsTable
from calibrators.bins.bins import GRID
from calibrators.bins.model_versions import named, parted
from calibrators.maps.atlas import Atlas
from calibrators.methods.refit import Fitted
from calibrators.model_versions import refit_by_version
from calibrators.pooled import Pooled
from calibrators.pooled.cells import CELLS, CampaignBlock, Cells, coarse_cells, mix_sums
from calibrators.pooled.fit import MOST_STEPS, NO_STEPS, CellEvidence, CoarseSums, Steps
from calibrators.pooled.serving import ServedKnots
from calibrators.pooled.spline import Coordinates, Knots
from calibrators.pooled.window import Memory
from calibrators.samples import Floats
from tests.calibrators.pooled.pooled_traffic import NEWEST, history, table

CENTRE = -2.5
ONE = np.ones(1)
SAMPLES = np.ones(GRID.size)
EVEN = np.stack((SAMPLES, SAMPLES / 2))
"""Samples and positives of the grid, as many in each cell."""


def hours(curve: float, at: float, seed: int = 0, campaigns: int = 8) -> dict[int, BinsTable]:
    """Campaigns whose truth is the score's log-odds, and `curve` more from `at` on."""
    rng = np.random.default_rng(seed)
    names = [f"a{number}" for number in range(campaigns)]
    found = {}
    for hour in range(NEWEST - 23, NEWEST + 1):
        rows = rng.integers(0, campaigns, 4_000)
        z = rng.normal(CENTRE, 0.8, len(rows))
        clicks = rng.random(len(rows)) < expit(z + curve * (z >= at))
        found[hour] = table(names, rows, expit(z), np.ones(len(rows)), clicks)
    return found


@cache
def with_a_step() -> Fitted:
    return Pooled().refit(history(hours(0.8, -2.0)))


def test_the_score_below_a_step_has_none_of_it():
    """Many impressions may have one score, which lies anywhere in the cell below."""
    steps = Steps(np.array([2397]), np.array([2.0]))
    border = float(steps.borders[0])

    assert steps.at(np.array([border - 0.0005, border])).tolist() == [0.0, 2.0]


def test_levels_are_of_what_is_served_where_the_truth_falls_behind_a_step():
    """Maps never fall, so that they are not the curve that was fitted; the sum is right still."""
    rng = np.random.default_rng(1)
    names = [f"a{number:02}" for number in range(20)]
    own = rng.normal(0, 0.2, 20)
    tables = {}
    for hour in range(NEWEST - 23, NEWEST + 1):
        rows = rng.integers(0, 20, 30_000)
        z = rng.normal(-3.3, 0.9, len(rows))
        truth = expit(own[rows] - 3.0 - 0.4 * (z + 3.3) + 0.6 * (z > -3.5) - (z > -2.5))
        clicks = rng.random(len(rows)) < truth
        tables[hour] = table(names, rows, expit(z), np.ones(len(rows)), clicks)
    fitted = Pooled().refit(history(tables))
    found = fitted.atlas.look_up(fitted.atlas.rows(names)[rows], expit(z))

    assert len(steps_of(fitted.memory).cells)
    assert found.sum() / truth.sum() == pytest.approx(1.0, abs=0.015)


def steps_of(memory: object) -> Steps:
    assert isinstance(memory, Memory)
    return memory.steps


def served(atlas: Atlas, log_odds: list[float]) -> Floats:
    """The log-odds that a campaign is served."""
    rows = np.zeros(len(log_odds), np.int64) + atlas.rows(["a0"])
    return np.asarray(logit(atlas.look_up(rows, expit(np.array(log_odds)))))


def test_a_step_is_found_at_its_score_and_served_there():
    """Within .05 in log-odds of its place, where knots are .35 apart, and half of its height lies
    within another .05 around it."""
    steps = steps_of(with_a_step().memory)
    assert steps.borders == pytest.approx([-2.0], abs=0.05)
    assert steps.heights == pytest.approx([0.8], abs=0.15)
    before, behind = served(with_a_step().atlas, [-2.05, -1.95])
    assert behind - before == pytest.approx(0.9, abs=0.2)


def test_a_later_refit_keeps_its_steps_and_forgets_those_that_are_gone():
    """From the memory of the refit before; a model without the step has none in the end."""
    first = with_a_step()
    again = Pooled().refit(history(hours(0.8, -2.0, seed=1)), memory=first.memory)
    gone = Pooled().refit(history(hours(0.0, -2.0, seed=2)), memory=first.memory)

    assert steps_of(again.memory).cells == pytest.approx(steps_of(first.memory).cells, abs=6)
    assert len(steps_of(gone.memory).cells) == 0


@pytest.mark.parametrize("seed", range(4))
def test_smooth_traffic_has_no_steps(seed):
    fitted = Pooled().refit(history(hours(0.0, 0.0, seed)))

    assert len(steps_of(fitted.memory).cells) == 0
    assert "steps" not in fitted.notes


def evidence(seed: int, cells: int) -> CellEvidence:
    """Of a level and a slope, whose mode the residuals are taken at."""
    rng = np.random.default_rng(seed)
    columns = np.stack((np.ones(cells), np.linspace(-1, 1, cells)), axis=1)
    precision = np.diag([1.0, 4.0])
    information = rng.gamma(1.0, 20.0, cells)
    seen = rng.normal(0, 1, cells) / np.sqrt(information) + 0.7 * (np.arange(cells) >= cells // 3)
    mode = np.linalg.solve(
        columns.T * information @ columns + precision, columns.T @ (information * seen)
    )
    residuals = information * (seen - columns @ mode)
    # The prior pulls on what is left, so a second mode is taken around this one.
    return CellEvidence(
        np.arange(cells) + 500, residuals, information, columns, precision, np.zeros(cells)
    )


def marginal(cells: CellEvidence, places: list[int]) -> float:
    """Twice the log marginal likelihood, up to a constant, of a normal model by its covariance."""
    columns = [cells.directions @ np.linalg.cholesky(np.linalg.inv(cells.precision))]
    columns += [0.5 * (cells.cells >= place)[:, None] for place in places]
    design = np.hstack(columns)
    covariance = design @ design.T + np.diag(1 / cells.information)
    # What is seen around the mode: the residuals, and the pull of the prior on it.
    mode = np.linalg.solve(cells.precision, cells.directions.T @ cells.residuals)
    seen = cells.residuals / cells.information + cells.directions @ mode
    sign, size = np.linalg.slogdet(covariance)
    assert sign > 0
    return float(-seen @ np.linalg.solve(covariance, seen) - size)


@given(st.integers(0, 50), st.integers(9, 40))
def test_the_step_that_is_added_first_is_the_likeliest_of_all(seed, count):
    """By brute force over all places, with the covariance of everything seen."""
    cells = evidence(seed, count)
    gains = [marginal(cells, [place]) - marginal(cells, []) for place in cells.cells[1:].tolist()]
    found = cells.steps(NO_STEPS)

    if max(gains) > 2 * (np.log(count) + 3) + 0.1:
        assert cells.cells[1 + int(np.argmax(gains))] in found.cells
    if max(gains) < 2 * (np.log(count) + 3) - 0.1:
        assert len(found.cells) == 0
    assert len(found.cells) <= MOST_STEPS


@given(st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=MOST_STEPS), st.integers(0, 99))
def test_maps_with_steps_never_fall_and_keep_their_size(heights, seed):
    rng = np.random.default_rng(seed)
    cells = np.sort(rng.choice(np.arange(2_200, 2_900), len(heights), replace=False))
    knots = Knots.between(-5.0, 0.5)
    served = ServedKnots(knots, Steps(cells, np.array(heights)), EVEN)

    maps = served.maps(rng.normal(0, 0.5, (3, knots.count)), rng.normal(0, 0.2, 3))

    assert (maps.lengths <= 64).all()
    for values in np.split(maps.values, 3):
        assert (np.diff(values) >= 0).all()
        assert 0 < values[0] <= values[-1] < 1


@pytest.mark.parametrize("seed", [22, 35])
def test_certain_scores_of_versions_of_a_model_are_fitted(seed):
    """Scores of exactly 0 and 1, as many as make steps there."""
    rng, tables = np.random.default_rng(seed), {}
    for hour in range(4):
        scores = expit(rng.normal(-3, 1, 3000))
        one, zero = rng.random(3000) < 0.15, rng.random(3000) < 0.15
        scores[one], scores[zero] = 1.0, 0.0
        truth = np.where(
            scores == 1, 0.1 + 0.1 * (seed % 4), np.where(scores == 0, 0.1 * (seed % 3), scores)
        )
        outcomes = rng.random(3000) < truth
        names = [named("a", "v1"), named("a", "v2"), named("b", "v1")]
        rows = rng.integers(0, 3, 3000)
        tables[NEWEST - hour] = table(names, rows, scores, np.ones(3000), outcomes)

    atlas = refit_by_version(Pooled(), history(tables)).atlas

    assert {"a", "b"} <= {parted(name)[0] for name in atlas.campaigns}


def test_where_a_spline_falls_between_steps_the_map_is_flat_at_their_mean():
    """As what is known on both sides has it, not at the larger value."""
    knots = Knots.between(-5.0, 0.5)
    cell = int(GRID.cells_of(expit(np.array([-2.0])))[0])
    steps = Steps(np.array([cell]), np.array([-1.0]))

    def at_step(grid: Floats) -> float:
        maps = ServedKnots(knots, steps, grid).maps(np.zeros((1, knots.count)), np.zeros(1))
        return float(logit(np.interp(expit(-2.0), maps.knots, maps.values)))

    assert at_step(EVEN) == pytest.approx(-2.5, abs=0.1)
    # The many impressions of one score behind the step have their own rate.
    many = EVEN + 1e6 * EVEN * (np.arange(GRID.size) == cell)
    assert at_step(many) == pytest.approx(-3.0, abs=0.02)


def test_a_coarse_cell_holds_what_its_samples_lie_behind():
    """By the samples of each cell of the grid, one by one."""
    rng = np.random.default_rng(3)
    samples = rng.integers(0, 5, GRID.size).astype(np.float64)
    steps = Steps(np.array([2_300, 2_310, 2_400]), np.array([0.5, -0.2, 0.3]))
    found = steps.in_coarse_cells(samples)

    for place in np.unique(coarse_cells()[2_250:2_450]).tolist():
        inside = np.flatnonzero((coarse_cells() == place) & (samples > 0)).tolist()
        sums = [sum(h for c, h in zip(*steps, strict=True) if cell >= c) for cell in inside]
        if inside:
            assert found[place] == pytest.approx(np.average(sums, weights=samples[inside]))


def test_sums_of_coarse_cells_are_split_without_loss():
    """Among cells of the grid with samples; what positives expect is shared as scores say."""
    rng = np.random.default_rng(5)
    samples = rng.integers(0, 3, GRID.size).astype(np.float64)
    positives = np.minimum(samples, rng.integers(0, 2, GRID.size))
    held = np.zeros(CELLS)
    np.maximum.at(held, coarse_cells(), positives)
    sums = CoarseSums(*(held * rng.random(CELLS) for _ in range(4)))
    curve, directions = np.linspace(-9, 9, GRID.size), np.ones((GRID.size, 1))
    grid = np.vstack((samples, positives, mix_sums(samples[None])))
    cells = CellEvidence.split(grid, sums, curve, directions, np.eye(1))

    assert cells.residuals.sum() == pytest.approx(sums.observed.sum() - sums.expected.sum())
    assert cells.information.sum() == pytest.approx(sums.information.sum())


@pytest.mark.parametrize("alike", [True, False])
def test_what_the_mix_of_campaigns_does_is_noise(alike):
    """Of each cell: the square of what every campaign's share has more than of all around."""
    rng = np.random.default_rng(7)
    samples = np.zeros((5, GRID.size))
    samples[:, 2_000:2_600] = 2.0 if alike else rng.integers(0, 4, (5, 600))
    total = samples.sum(axis=0)
    sums = CoarseSums(*np.ones((4, CELLS)))
    grid = np.vstack((total, total, mix_sums(samples)))
    cells = CellEvidence.split(grid, sums, np.zeros(GRID.size), np.ones((GRID.size, 1)), np.eye(1))

    for cell, information, mixed in zip(cells.cells, cells.information, cells.mixed, strict=True):
        around = samples[:, coarse_cells() == coarse_cells()[cell]].sum(axis=1)
        squares = np.sum((samples[:, cell] / total[cell]) ** 2)
        other = max(squares - np.sum((around / around.sum()) ** 2), 0.0)
        assert mixed == pytest.approx(information**2 * other, abs=1e-12)
    assert bool(cells.mixed.max() > 1e-9) is not alike


def own_scores(scores: int, curve: float) -> dict[int, BinsTable]:
    """Each campaign has scores of its own, and a level; `curve` more from -2 on."""
    rng = np.random.default_rng(1)
    names = [f"a{number:02d}" for number in range(40)]
    z = rng.normal(CENTRE, 0.8, (40, scores))
    truth = expit(z + rng.normal(0, 0.3, (40, 1)) + curve * (z >= -2.0)).reshape(-1)
    rows, counts = np.repeat(np.arange(40), scores), np.full(truth.shape, 300.0)
    found = {}
    for hour in range(NEWEST - 23, NEWEST + 1):
        seen = rng.binomial(300, truth).astype(np.float64)
        found[hour] = table(names, rows, expit(z).reshape(-1), counts, seen)
    return found


def test_levels_of_campaigns_with_scores_of_their_own_are_no_steps():
    """Each cell of the grid holds one campaign, or a few: how far they lie apart is no step."""
    smooth = Pooled().refit(history(own_scores(10, 0.0)))
    stepped = Pooled().refit(history(own_scores(60, 0.8)))

    assert len(steps_of(smooth.memory).cells) == 0
    assert steps_of(stepped.memory).borders == pytest.approx([-2.0], abs=0.05)


def test_a_campaigns_cell_is_that_of_the_grid():
    """A score may lie beyond the border that is nearest to the middle of its cell."""
    knots = Knots.between(-3.0, -2.0)
    coordinates, nothing = Coordinates.of(knots, np.ones(knots.count)), np.zeros(knots.count)
    campaign = np.zeros(1, np.int64)
    for score in GRID.edges(np.arange(2_000, 2_600))[0] * 1.0001:
        cells = Cells.of({0: table(["a"], campaign, np.array([score]), ONE, ONE)}, 0, 1)
        block = CampaignBlock(cells, coordinates, campaign, nothing[None], ONE[None])
        held = block.by_coarse_cell(nothing[None], nothing)[0]
        assert (held == np.bincount(coarse_cells(), cells.grid[0], CELLS)).all()


SCORES = np.array([0.01, 0.02, 0.05, 0.08, 0.2])
TRUTHS = np.array([0.02, 0.02, 0.03, 0.12, 0.13])


def few(scores: Floats = SCORES, campaigns: int = 4) -> dict[int, BinsTable]:
    """Traffic of a few distinct scores, whose truths are a table."""
    names = [f"a{number}" for number in range(campaigns)]
    rows = np.repeat(np.arange(campaigns), len(scores))
    counts = np.full(len(rows), 200.0)
    positives = np.tile(200 * np.resize(TRUTHS, len(scores)), campaigns)
    cells = table(names, rows, np.tile(scores, campaigns), counts, positives)
    return dict.fromkeys(range(NEWEST - 23, NEWEST + 1), cells)


def test_few_scores_are_the_knots_and_each_gets_its_own_truth():
    fitted = Pooled().refit(history(few()))

    assert isinstance(fitted.memory, Memory)
    assert fitted.memory.knots.positions == pytest.approx(logit(SCORES), abs=1e-5)
    found = fitted.atlas.look_up(np.repeat(fitted.atlas.rows(["a1"]), 5), SCORES)
    assert found == pytest.approx(TRUTHS, rel=0.06)


@pytest.mark.parametrize("count", [3, 65])
def test_too_few_or_many_scores_have_knots_of_the_lattice(count):
    """A score more, or of less than four, are not the knots."""
    scores = expit(np.linspace(-6.5, 0.5, count))
    memory = Pooled().refit(history(few(scores))).memory

    assert isinstance(memory, Memory)
    assert not memory.knots.scores


def test_scores_too_close_for_a_cell_each_have_knots_of_the_lattice():
    memory = Pooled().refit(history(few(np.array([0.01, 0.02, 0.0202, 0.08, 0.2])))).memory

    assert isinstance(memory, Memory)
    assert not memory.knots.scores


def test_a_score_that_is_new_takes_over_the_curve_of_those_around_it():
    """The knots change between refits, and the memory's curves move onto them."""
    first = Pooled().refit(history(few()))
    more = np.array([0.01, 0.02, 0.03, 0.05, 0.08, 0.2])
    cold, warm = (Pooled().refit(history(few(more)), memory=each) for each in (None, first.memory))

    for score in more.tolist():
        rows = cold.atlas.rows(["a2"])
        apart = [logit(each.atlas.look_up(rows, np.array([score]))) for each in (cold, warm)]
        assert apart[0] == pytest.approx(apart[1], abs=0.01)
