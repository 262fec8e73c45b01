"""Scores that hardly differ are served as well as ones that do, and nothing else is changed."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calibrators import BinsTable, History
from calibrators.methods.refit import Fitted
from calibrators.pooled import Pooled
from calibrators.pooled.pushes import ScoreScale
from calibrators.pooled.spline import AS_IS, Stretch
from calibrators.pooled.window import Memory
from calibrators.samples import Floats
from tests.calibrators.pooled.pooled_traffic import NEWEST, history, table

NAMES = [f"a{number:02}" for number in range(12)]
RANKS = np.linspace(-2, 2, 81)
"""Of scores, in standard deviations."""

NARROW = [(0.0, 0.035), (-3.9, 0.025), (-3.9, 0.06), (-3.9, 0.2)]


def truth(ranks: Floats) -> Floats:
    """Of impressions whose scores have these ranks: bent, from half a percent to nine."""
    return np.asarray(expit(-3.9 + np.where(ranks > 0, 0.8, 0.4) * ranks))


def drawn(
    middle: float | Floats, spread: float | Floats, first: int, behind: int, campaigns: int = 12
) -> History:
    """Hours of impressions whose scores' log-odds are around the middle, or each campaign's, as
    far as the spread, or each campaign's."""
    rng = np.random.default_rng(1)
    found = {}
    for hour in range(NEWEST - 23, NEWEST + 1):
        ranks = rng.normal(0, 1, 12_000)
        rows = rng.integers(0, campaigns, len(ranks))
        clicks = rng.binomial(1, truth(ranks)).astype(np.float64)
        if first <= hour < behind:
            middles, spreads = (np.broadcast_to(each, campaigns)[rows] for each in (middle, spread))
            scores = expit(middles + spreads * ranks)
            found[hour] = table(NAMES[:campaigns], rows, scores, np.ones(len(ranks)), clicks)
    return history(found)


@cache
def whole(middle: float, spread: float, campaigns: int = 12) -> History:
    return drawn(middle, spread, 0, NEWEST + 1, campaigns)


@cache
def refitted(middle: float, spread: float, campaigns: int = 12) -> Fitted:
    return Pooled().refit(whole(middle, spread, campaigns))


def served(fitted: Fitted, middle: float, spread: float) -> Floats:
    """Log-odds that a campaign is served at the ranks."""
    atlas = fitted.atlas
    rows = np.zeros(len(RANKS), np.int64) + atlas.rows(NAMES[:1])
    return np.asarray(logit(atlas.look_up(rows, expit(middle + spread * RANKS))))


def stretch_of(fitted: Fitted) -> Stretch:
    assert isinstance(fitted.memory, Memory)
    return fitted.memory.knots.stretch


def pushes_of(fitted: Fitted) -> tuple[int, ...]:
    assert isinstance(fitted.scale, ScoreScale)
    return fitted.scale.pushes


@pytest.mark.parametrize("campaigns", [1, 12])
@pytest.mark.parametrize(("middle", "spread"), NARROW)
def test_narrow_scores_are_served_as_those_ten_times_as_wide(middle, spread, campaigns):
    """Up to three times the rate was served."""
    fitted, wide = refitted(middle, spread, campaigns), refitted(middle, 0.8, campaigns)

    found = served(fitted, middle, spread)
    assert found == pytest.approx(logit(truth(RANKS)), abs=0.2)
    assert found == pytest.approx(served(wide, middle, 0.8), abs=0.15)
    assert stretch_of(wide) == AS_IS


def test_campaigns_may_have_narrow_scores_each_in_a_place_of_its_own():
    """Twice the rate was served: a curve so steep is not in a cell what it is at its middle. Where
    another model moves them by as much as they differ, history goes with them."""
    middles, spread = np.linspace(-5.0, -2.8, 12), 0.03
    fitted = Pooled().refit(drawn(middles, spread, 0, NEWEST + 1), trial=True)
    (past,) = drawn(middles, spread, 0, NEWEST).blocks
    (hour,) = drawn(middles + spread, spread, NEWEST, 999).blocks
    pushed = Pooled().refit(history({**past, **hour}))
    scale = Pooled().refit(History(float(NEWEST), [past])).scale

    for each, atlas in enumerate((fitted.atlas, fitted.trial, pushed.atlas)):
        at = expit(middles[:, None] + spread * (RANKS + (each == 2)))
        rows = np.repeat(atlas.rows(NAMES), len(RANKS))
        found = logit(atlas.look_up(rows, at.reshape(-1))).reshape(at.shape)
        assert found == pytest.approx(np.tile(logit(truth(RANKS)), (12, 1)), abs=0.3)
    assert pushes_of(pushed) == (NEWEST,)
    assert scale.changed(NEWEST, hour[NEWEST])
    assert not scale.changed(NEWEST, past[NEWEST - 1])


def test_a_range_on_the_border_of_what_is_narrow_is_served_alike_on_both_sides():
    """From one refit to the next the spread may pass it."""
    inside, outside = (refitted(-3.9, spread) for spread in (0.42, 0.44))

    assert (stretch_of(inside).factor, stretch_of(outside)) == (2, AS_IS)
    assert served(inside, -3.9, 0.42) == pytest.approx(served(outside, -3.9, 0.44), abs=0.06)


@pytest.mark.parametrize(("before", "now"), [(0.03, 0.8), (0.8, 0.03), (0.03, 0.03)])
def test_a_memory_of_another_scale_changes_no_map(before, now):
    memory, fresh = refitted(-3.9, before).memory, refitted(-3.9, now)
    found = Pooled().refit(whole(-3.9, now), memory=memory)

    assert served(found, -3.9, now) == pytest.approx(served(fresh, -3.9, now), abs=0.01)


@pytest.mark.parametrize(("before", "now"), [(0.8, 0.03), (0.03, 0.8)])
def test_a_push_may_make_scores_narrow_or_wide(before, now):
    """It is seen in the running hour; with an hour of the new model campaigns have their rates."""
    (past,), (hour,) = drawn(-3.9, before, 0, NEWEST).blocks, drawn(-3.9, now, NEWEST, 999).blocks
    earlier = Pooled().refit(History(float(NEWEST), [past]))
    fitted = Pooled().refit(history({**past, **hour}), memory=earlier.memory)

    assert earlier.scale.changed(NEWEST, hour[NEWEST])
    assert pushes_of(fitted) == (NEWEST,)
    assert served(fitted, -3.9, now) == pytest.approx(logit(truth(RANKS)), abs=0.3)


def test_maps_from_before_a_push_give_the_same_ranks_the_same_rates():
    """Those of wide scores, where scores are narrow now."""
    (past,), (hour,) = drawn(-3.9, 0.8, 0, NEWEST).blocks, drawn(-3.9, 0.03, NEWEST, 999).blocks
    earlier = Pooled().refit(History(float(NEWEST), [past]))
    scale = Pooled().refit(history({**past, **hour})).scale

    moved = scale.on_scale(earlier.atlas, float(NEWEST))
    assert moved is not None
    found = served(replace(earlier, atlas=moved), -3.9, 0.03)
    assert found == pytest.approx(served(earlier, -3.9, 0.8), abs=0.15)


def test_a_shift_within_a_narrow_range_is_a_push():
    """By a standard deviation of the scores, which are .03 in log-odds."""
    (past,), (hour,) = whole(-3.9, 0.03).blocks, drawn(-3.87, 0.03, NEWEST, 999).blocks

    assert pushes_of(Pooled().refit(history({**past, **hour}))) == (NEWEST,)


def test_scores_that_are_one_are_not_stretched():
    ones = np.ones(400)
    hours = {hour: table(["a"], ones - 1, ones * 0.02, ones, ones * 0.1) for hour in (99, NEWEST)}

    assert stretch_of(Pooled().refit(history(hours))) == AS_IS


@given(st.floats(-12, 5), st.floats(0, 3), st.lists(st.floats(-17, 17), min_size=2))
def test_a_stretch_rises_and_comes_back(low, width, values):
    """And is none, to the bit, for scores that are not narrow."""
    stretch, ascending = Stretch.of(low, low + width), np.sort(values)
    moved = stretch(ascending)

    assert stretch.back(moved) == pytest.approx(ascending, abs=1e-9)
    assert (np.diff(moved) >= np.diff(ascending) - 1e-9).all()
    if 0 < width < 1.4:
        ends = stretch(np.array([low, low + width]))
        assert min(1.4, 32 * width) - 1e-9 <= ends[1] - ends[0] < 2.8
    else:
        assert stretch == AS_IS
        assert (moved == ascending).all()


def test_nothing_is_lost_where_scores_are_stretched():
    """All samples and positives are there, and some scores far from the others keep their rate."""
    (past,) = whole(-3.9, 0.03).blocks
    far = table(NAMES, np.arange(12), np.full(12, 0.3), np.full(12, 10.0), np.full(12, 3.0))
    fitted = Pooled().refit(
        history({hour: BinsTable.merge((each, far)) for hour, each in past.items()})
    )

    found = fitted.atlas.look_up(np.zeros(1, np.int64), np.array([0.3]))
    assert stretch_of(fitted).factor > 1
    assert found == pytest.approx(0.3, rel=0.2)


def test_some_campaigns_may_have_narrow_scores_and_the_others_wide_ones():
    """Up to twenty times the rate was served to the narrow ones; as wide as half, and as all."""
    middles = np.linspace(-5.0, -2.8, 12)
    spreads = np.where(np.arange(12) % 2, 0.03, 0.8)
    fitted = Pooled().refit(drawn(middles, spreads, 0, NEWEST + 1), trial=True)
    alike = Pooled().refit(drawn(-3.9, np.where(np.arange(12) % 2, 0.03, 0.2), 0, NEWEST + 1))

    for atlas, middle, spread in (
        (fitted.atlas, middles, spreads),
        (fitted.trial, middles, spreads),
        (alike.atlas, np.full(12, -3.9), np.where(np.arange(12) % 2, 0.03, 0.2)),
    ):
        at = expit(middle[:, None] + spread[:, None] * RANKS)
        found = logit(atlas.look_up(np.repeat(atlas.rows(NAMES), len(RANKS)), at.reshape(-1)))
        assert found == pytest.approx(np.tile(logit(truth(RANKS)), 12), abs=0.4)


@pytest.mark.parametrize("parts", [(0.3, 0.0), (0.3, 0.12), (0.0, 0.12)])
def test_campaigns_may_have_narrow_scores_in_two_places_and_some_of_0_and_1(parts):
    """Of two placements, say: log-odds were served that are up to 2 to 4 away."""
    rng, middles = np.random.default_rng(3), np.linspace(-5.0, -2.8, 12)
    (second, ends), hours, rows = parts, {}, np.repeat(np.arange(12), 1000)
    for hour in range(NEWEST - 23, NEWEST + 1):
        ranks, cut = rng.normal(size=len(rows)), rng.random(len(rows)) < ends
        above, one = rng.random(len(rows)) < second, rng.random(len(rows)) < 0.5
        rates = expit(logit(truth(ranks)) + 2.4 * above)
        scores = np.where(cut, one, expit(middles[rows] + 2.5 * above + 0.03 * ranks))
        clicks = rng.binomial(1, np.where(cut, np.where(one, 0.8, 0.005), rates))
        hours[hour] = table(NAMES, rows, scores, np.ones(len(rows)), clicks.astype(np.float64))
    atlas = Pooled().refit(history(hours)).atlas

    own = np.repeat(atlas.rows(NAMES), len(RANKS))
    for place in range(1 + (second > 0)):
        at = expit(middles[:, None] + 2.5 * place + 0.03 * RANKS).reshape(-1)
        wanted = np.tile(logit(truth(RANKS)) + 2.4 * place, 12)
        assert logit(atlas.look_up(own, at)) == pytest.approx(wanted, abs=0.6)


def test_narrow_scores_that_tell_outcomes_as_they_should_are_not_stretched():
    """Maps go on to share their knots; outcomes that come without an impression say nothing."""
    rng, rows = np.random.default_rng(2), np.repeat(np.arange(12), 400)
    hours = {}
    for hour in range(NEWEST - 23, NEWEST + 1):
        scores = expit(np.linspace(-5.0, -2.8, 12)[rows] + 0.03 * rng.normal(size=len(rows)))
        clicks = rng.binomial(1, scores).astype(np.float64)
        shown = np.where(rows == 11, 0.0, 1.0)
        hours[hour] = table(NAMES, rows, scores, shown, clicks)

    fitted = Pooled().refit(history(hours))
    assert isinstance(fitted.scale, ScoreScale)
    assert fitted.scale.stretches.own == {}
    assert stretch_of(fitted) == AS_IS


def test_scores_cut_off_at_0_and_1_leave_the_others_their_resolution():
    """Knots were as far apart as 0 and 1 ask for in log-odds, eight times as far as without."""
    hours = {}
    for hour, past in whole(-3.9, 0.8).blocks[0].items():
        ends = np.tile(np.array([0.0, 1.0]), 12)
        counts, rates = np.tile([50.0, 10.0], 12), np.tile([0.005, 0.2], 12)
        cut = table(NAMES, np.repeat(np.arange(12), 2), ends, counts, counts * rates)
        hours[hour] = BinsTable.merge((past, cut))
    fitted, usual = Pooled().refit(history(hours)), refitted(-3.9, 0.8)

    assert served(fitted, -3.9, 0.8) == pytest.approx(served(usual, -3.9, 0.8), abs=0.1)
    rows = np.zeros(2, np.int64) + fitted.atlas.rows(NAMES[:1])
    assert fitted.atlas.look_up(rows, np.array([0.0, 1.0])) == pytest.approx([0.005, 0.2], rel=0.2)
