"""Pushes of a model: found from the scores alone, and history carried over to the new scores."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calibrators import BinsTable, History, make_method
from calibrators.methods.refit import Fitted
from calibrators.pooled.cells import Cells
from calibrators.pooled.pushes import ScoreScale, Transport
from calibrators.pooled.score_shifts import ScoreHours
from calibrators.samples import Floats

NAMES = tuple(f"c{number:02d}" for number in range(24))
HOURS, PUSH = 16, 12
EACH = 150


def hour(number: int, moved: Floats, shares: Floats, users: float = 0.0) -> BinsTable:
    """Bins of an hour, log-odds of the scores of each campaign being moved by so much, (c,), and
    those of the truth by what other users there are."""
    rng = np.random.default_rng(number)
    rows = np.repeat(np.arange(len(NAMES)), rng.poisson(EACH * shares))
    truth = users - 3 + np.linspace(-1, 1, len(NAMES))[rows] + rng.normal(0, 0.8, len(rows))
    clicks = (rng.random(len(rows)) < expit(truth)) * 1.0
    scores = expit(truth * np.where(moved[rows] == 0, 1.0, 0.8) + moved[rows])
    return BinsTable.from_columns(NAMES, rows, scores, np.ones(len(rows)), clicks)


def hours(moved: Floats | float = 0.0, shares: Floats | float = 1.0) -> dict[int, BinsTable]:
    """Hours of which those from `PUSH` on have other scores, or another mix of campaigns."""
    same, every = np.zeros(len(NAMES)), np.ones(len(NAMES))
    return {
        number: hour(number, moved + same, shares * every)
        if number >= PUSH
        else hour(number, same, every)
        for number in range(HOURS)
    }


@cache
def unmoved() -> dict[int, BinsTable]:
    return hours()


@cache
def pushed() -> dict[int, BinsTable]:
    return hours(moved=0.8)


def fitted(tables: dict[int, BinsTable], as_of: float = HOURS) -> Fitted:
    return make_method("pooled").refit(History(as_of, [tables]), trial=True)


def pushes(tables: dict[int, BinsTable]) -> list[int]:
    return list(fitted(tables).notes.get("pushes", ()))


def test_a_push_is_found_in_its_hour():
    assert pushes(pushed()) == [PUSH]


def test_a_push_of_levels_that_differ_by_campaign_is_found():
    """Though the median campaign does not move."""
    signs = np.where(np.arange(len(NAMES)) % 2, 0.7, -0.7) - 0.6
    assert pushes(hours(moved=signs)) == [PUSH]


def test_another_mix_of_campaigns_is_no_push():
    """Although the scores of all traffic together move far."""
    assert pushes(hours(shares=np.linspace(0.1, 3.0, len(NAMES)))) == []


def test_a_minority_of_campaigns_is_no_push():
    few = np.where(np.arange(len(NAMES)) % 3, 0.0, 2.0)
    assert pushes(hours(moved=few)) == []


def of_day(height: float, phases: Floats, others: float, behind: int) -> dict[int, BinsTable]:
    """Hours in which the campaigns' scores rise and fall every day."""
    every = np.full(len(NAMES), others)
    return {
        number: hour(number, height * np.sin(number * np.pi / 12 + phases), every)
        for number in range(behind)
    }


def test_cycles_of_each_campaign_at_hours_of_its_own_are_no_push():
    """However far campaigns scatter from hour to hour: it is what they always do."""
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, len(NAMES))
    for height, others in ((0.4, 1.0), (0.8, 2.0)):
        tables = of_day(height, phases, others, 48)
        assert ScoreHours.of((Cells.of(tables, 0, 48),)).pushes_and_usual()[0] == []


def test_a_push_is_found_though_all_scores_rise_and_fall_every_day():
    """Its step is smaller than what the day does in the hours before."""
    tables = of_day(0.8, np.zeros(len(NAMES)), 4.0, 48)
    before = {number: tables[number] for number in range(46)}
    scale = ScoreScale.of((Cells.of(before, 0, 46),), History(46, [before]), 46)
    moved = np.full(len(NAMES), 0.8 * np.sin(46 * np.pi / 12) + 0.35)

    assert ScoreHours.of((Cells.of(tables, 0, 48),)).pushes_and_usual()[0] == []
    assert not scale.changed(46, tables[46])
    assert scale.changed(46, hour(46, moved, np.full(len(NAMES), 4.0)))


def test_a_few_campaigns_with_a_line_contradict_no_push():
    """In the second hour of all others there is none yet."""
    none, every = np.zeros(len(NAMES)), np.ones(len(NAMES))
    first = 1.0 * (np.arange(len(NAMES)) == 0)
    tables = {number: hour(number, none, first if number < 2 else every) for number in range(3)}
    tables[3] = hour(3, 0.8 * (1 - first), every)

    assert ScoreHours.of((Cells.of(tables, 0, 4),)).pushes_and_usual()[0] == [3]


def of_users(*moved: float) -> dict[int, BinsTable]:
    """Hours whose users differ, and the scores with them."""
    none, every = np.zeros(len(NAMES)), np.ones(len(NAMES))
    return {number: hour(number, none, every, users) for number, users in enumerate(moved)}


def test_other_users_are_no_push():
    """Their clicks follow their scores, which nothing but the clicks shows."""
    tables = of_users(*[0.0] * PUSH, *[0.8] * (HOURS - PUSH))
    blocks = (Cells.of(tables, 0, HOURS),)

    assert ScoreHours.of(blocks).pushes_and_usual()[0] == [PUSH]
    assert pushes(tables) == []


def test_what_users_did_before_is_no_push_when_no_click_has_told_yet():
    morning = [0.0] * 5 + [0.8] * 3
    again = of_users(*morning, *morning)
    scale = fitted({number: again[number] for number in range(13)}, 13).scale
    without_clicks = replace(again[13], sums=again[13].sums * np.array([[1], [1], [0]]))

    assert not scale.changed(13, without_clicks)
    assert scale.changed(13, of_users(*[2.0] * 14)[13])


def test_without_a_push_the_cells_are_those_that_were_read():
    blocks = (Cells.of(unmoved(), 0, HOURS),)
    scale = ScoreScale.of(blocks, History(HOURS, [unmoved()]), HOURS)

    assert scale.carried_over(blocks) is blocks


def test_what_is_carried_over_keeps_counts_and_positives():
    blocks = (Cells.of(pushed(), 0, HOURS),)
    scale = ScoreScale.of(blocks, History(HOURS, [unmoved()]), HOURS)
    (moved,) = scale.carried_over(blocks)

    assert scale.pushes == (PUSH,)
    told, known = (list(cells.hours.outcomes(cells.scores)) for cells in (moved, blocks[0]))
    assert told[2] == pytest.approx(known[2], abs=0)
    assert moved.samples.sum() == blocks[0].samples.sum()


def test_maps_of_both_scales_say_the_same_of_the_same_impressions():
    """The maps of before the push, moved, are near those that learnt from its first hour."""
    tables = pushed()
    before = fitted({number: tables[number] for number in range(PUSH)}, PUSH).atlas
    first = fitted({number: tables[number] for number in range(PUSH + 1)}, PUSH + 1)
    moved = first.scale.on_scale(before, PUSH)

    truth = np.linspace(-5, -1.5, 8)
    for number, name in enumerate(NAMES):
        own = truth + np.linspace(-1, 1, len(NAMES))[number]
        old, new = expit(own), expit(own * 0.8 + 0.8)
        said = [before([name] * 8, old), moved([name] * 8, new), first.atlas([name] * 8, new)]
        apart = [np.abs(logit(each) - logit(said[0])).mean() for each in said[1:]]
        assert max(apart) < 0.3


@pytest.mark.parametrize("own", [0.0, 1.0])
@pytest.mark.parametrize("log_odds", [-1.386294, -3.89182])
def test_a_model_that_fails_has_the_rate_of_each_campaign_at_once(own, log_odds):
    """All impressions have one score then, or those of each campaign have one of its own."""
    centres = np.linspace(-1, 1, len(NAMES))
    rng = np.random.default_rng(7)
    rows = np.repeat(np.arange(len(NAMES)), 4 * EACH)
    truth = expit(-3 + centres[rows] + rng.normal(0, 0.8, len(rows)))
    scores = expit(log_odds + own * centres)
    newest = (scores[rows], np.ones(len(rows)), 1.0 * (rng.random(len(rows)) < truth))
    tables = unmoved() | {PUSH: BinsTable.from_columns(NAMES, rows, *newest)}
    found = fitted({number: tables[number] for number in range(PUSH + 1)}, PUSH + 1)

    rates = np.bincount(rows, truth) / (4 * EACH)
    assert found.notes["pushes"] == [PUSH]
    assert np.abs(np.log(found.atlas(NAMES, scores) / rates)).mean() < 0.12


def test_a_running_hour_is_fitted_again_when_another_model_scores():
    tables = unmoved()
    scale = fitted({number: tables[number] for number in range(PUSH)}, PUSH).scale

    assert not scale.changed(PUSH, tables[PUSH])
    assert scale.changed(PUSH, pushed()[PUSH])


def test_a_push_that_is_known_is_fitted_again_when_twice_as_much_is_known():
    tables = pushed()
    running = {number: tables[number] for number in range(PUSH + 1)}
    scale = fitted(running, PUSH + 0.5).scale

    assert not scale.changed(PUSH, tables[PUSH])
    assert scale.changed(PUSH, BinsTable.merge([tables[PUSH]] * 2))


@given(st.integers(0, 1000), st.floats(0.3, 2.0), st.floats(-2.0, 2.0))
def test_a_transport_rises_and_finds_a_straight_line(seed, slope, level):
    rng = np.random.default_rng(seed)
    rows, old = np.repeat(np.arange(5), 400), rng.normal(-3, 1, 2000)
    values = np.concatenate((old, level + slope * old))
    one, none = np.ones(2000), np.zeros(2000)
    found = Transport.of(np.tile(rows, 2), values, np.append(one, none), np.append(none, one), 5)
    middle = np.linspace(-4.5, -1.5, 20)

    assert (np.diff(found.common(np.linspace(-17, 17, 500))) > 0).all()
    assert np.abs(found.common(middle) - (level + slope * middle)).max() < 0.12


def test_a_transport_to_clipped_scores_is_level_at_both_ends():
    """Though the ends are known up to a thousandth only: no history comes to lie beside them."""
    rng = np.random.default_rng(1)
    old = rng.normal(-3, 1, 4000)
    new = np.clip(old, -3.4, -2.6) + rng.uniform(0, 1e-3, 4000)
    values, one, none = np.concatenate((old, new)), np.ones(4000), np.zeros(4000)
    rows = np.zeros(8000, np.int64)
    found = Transport.of(rows, values, np.append(one, none), np.append(none, one), 1, values)

    assert found.common(np.array([-9.0, -4.0])) == pytest.approx([-3.4, -3.4], abs=2e-3)
    assert found.common(np.array([-2.0, 9.0])) == pytest.approx([-2.6, -2.6], abs=2e-3)


def test_without_scores_on_both_sides_nothing_moves():
    found = Transport.of(np.zeros(2, np.int64), np.array([-1.0, 0.0]), np.ones(2), np.zeros(2), 1)
    assert found(np.array([-3.0, 2.0]), np.zeros(2, np.int64)).tolist() == [-3.0, 2.0]
