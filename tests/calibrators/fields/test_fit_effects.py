"""The fit of effects on sums with known ratios: found, shrunk, none where there are none, and
carried by `pooled` so that levels stay; and what the guard makes of effects that are far off."""

from functools import cache
from math import log
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, BinsTable
from calibrators.bins.table import History
from calibrators.fields import window as field_window
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.fit import HALF_LIVES, PSEUDO_COUNTS, EffectsFit, _Choice, _Search
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.fields.window import FieldWindow
from calibrators.guard import guard
from calibrators.pooled import Pooled
from calibrators.samples import Floats, Integers

HOURS = 16
CAMPAIGNS = tuple(f"c{number}" for number in range(12))
DEVICES = ("ios", "web", "app")
EFFECTS = np.array([0.5, -0.3, 0.0])
Hour = tuple[Integers, Integers, Floats, Floats]


def hour_of(rng: np.random.Generator, effects: Floats, deviation: float) -> Hour:
    """Campaign, device, score and outcome of the impressions of an hour; the first campaign has one
    device alone, whose effect its own level takes back. Every other campaign deviates by as much
    upwards as the rest do downwards, and from device to device the other way."""
    n = 4000
    campaigns = rng.integers(0, len(CAMPAIGNS), n)
    devices = np.where(campaigns == 0, 0, rng.choice(3, n, p=[0.3, 0.4, 0.3]))
    scores = rng.uniform(0.02, 0.1, n)
    logits = np.log(scores / (1 - scores)) + effects[devices] - effects[0] * (campaigns == 0)
    logits += np.where((campaigns + devices) % 2, deviation, -deviation)
    outcomes = (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(float)
    return campaigns, devices, scores, outcomes


@cache
def history_of(size: float = 1.0, seed: int = 1, deviation: float = 0.0) -> History:
    """With so many times the effects."""
    rng = np.random.default_rng(seed)
    bins, tables = {}, {}
    for hour in range(HOURS):
        campaigns, devices, scores, outcomes = hour_of(rng, size * EFFECTS, deviation)
        columns = (scores, np.ones(len(scores)), outcomes)
        bins[hour] = BinsTable.from_columns(CAMPAIGNS, campaigns, *columns)
        values = {"device": FieldColumn(DEVICES, devices)}
        tables[hour] = FieldTables.from_events(
            FieldColumn(CAMPAIGNS, campaigns), values, (), columns
        )
    nothing = FieldTables.empty()
    return History(float(HOURS), [bins], lambda hour: tables.get(hour, nothing))


def served(atlas: Atlas, campaign: str, device: str) -> float:
    p = np.array([atlas.at(campaign, 0.05)])
    return float(atlas.effects.applied(p, campaign, {"device": device})[0])


def test_effects_are_found_and_levels_stay():
    fitted = Pooled(HOURS).refit(history_of(), trial=True)
    assert fitted.trial is not None

    for atlas in (fitted.atlas, fitted.trial):
        for device, effect in zip(DEVICES, EFFECTS, strict=True):
            odds = 0.05 / 0.95 * np.exp(effect)
            assert served(atlas, "c5", device) == pytest.approx(odds / (1 + odds), rel=0.12)
        # Its map has what its one device does; without its level freed it would be 1.6 times that.
        assert served(atlas, "c0", "ios") == pytest.approx(0.05, rel=0.12)
    assert fitted.notes["fields"]["device"]["kept"] == 3


def test_what_is_known_to_be_next_to_none_has_a_row(monkeypatch):
    """Even were all effects too small to matter: without a row it would be as uncertain as a value
    that was never seen."""
    monkeypatch.setattr("calibrators.fields.fit._NONE", 10.0)
    effects = Pooled(HOURS).refit(history_of()).atlas.effects
    assert effects.tables[0]["device"].names == ("", *sorted(DEVICES))
    known = effects.variances("", {"device": DEVICES}, 3)
    assert known.max() < 0.1 * effects.variances("", {"device": "unseen"}, 1)[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fields_that_do_nothing_have_no_effect(seed):
    history = history_of(0.0, seed)
    with_fields = Pooled(HOURS).refit(history)
    without = Pooled(HOURS).refit(History(history.as_of, history.blocks))

    assert with_fields.atlas.effects is None
    assert with_fields.atlas.to_bytes() == without.atlas.to_bytes()


def test_a_refit_that_remembers_reads_the_newest_hours_only_and_finds_the_same(monkeypatch):
    monkeypatch.setattr(field_window, "_READ_AGAIN", 1)
    history = history_of()
    assert history.fields is not None
    tables, read = history.fields, list[int]()
    watched = History(history.as_of, history.blocks, lambda hour: read.append(hour) or tables(hour))
    window = FieldWindow()

    window.read(watched, range(HOURS - 1))
    read.clear()
    window.read(watched, range(1, HOURS))
    afresh = FieldWindow()
    afresh.read(history, range(1, HOURS))

    assert read == [HOURS - 2, HOURS - 1]
    for hour in afresh.hours:
        columns = (each.hours[hour].campaigns["device"].expected for each in (window, afresh))
        assert np.array_equal(*columns)


def effects_of(log_odds: Floats) -> FieldEffects:
    table = EffectTable.of({"": 0.0, **dict(zip(DEVICES, log_odds.tolist(), strict=True))}, {})
    return FieldEffects({"device": table})


@pytest.mark.parametrize(("tried", "kept"), [(EFFECTS, False), (-2 * EFFECTS, True)])
def test_effects_that_the_newest_hour_speaks_against_are_held_back(tried, kept):
    history = history_of()
    in_force, candidate = effects_of(EFFECTS), effects_of(tried)
    atlas = Atlas.empty()
    newest = history.windows(HOURS - 1, HOURS)
    guarded = guard(
        atlas.with_effects(candidate),
        atlas.with_effects(candidate),
        atlas.with_effects(in_force),
        newest,
        fields=history.fields(HOURS - 1),
    )

    expected = in_force if kept else candidate
    assert guarded.atlas.effects.to_bytes() == expected.to_bytes()


def test_no_effect_moves_by_more_than_the_step():
    far, near = effects_of(np.array([2.0, -2.0, 0.5])), effects_of(np.array([0.0, 0.0, 0.0]))

    out, back = (
        np.log(effects.odds_ratios("", {"device": DEVICES}, 3))
        for effects in (far.stepped(near, 3.0), FieldEffects.none(("device",)).stepped(far, 3.0))
    )

    assert out == pytest.approx([np.log(3), -np.log(3), 0.5])
    assert back == pytest.approx([2 - np.log(3), np.log(3) - 2, 0.0])
    assert FieldEffects.none(("device",)).stepped(effects_of(EFFECTS), 3.0).is_none


def test_an_effect_that_goes_in_steps_is_as_uncertain_as_the_least_certain():
    before = FieldEffects({"device": EffectTable.of({"": 0.0, "ios": 2.0}, {"ios": 0.1})})
    now = FieldEffects({"device": EffectTable.of({"": 0.0, "web": 0.1}, {"": 0.4, "web": 0.02})})
    found = now.stepped(before, 3.0).variances("", {"device": ["ios", "web"]}, 2)
    assert found == pytest.approx([0.16, 0.0004])


def window_of(history: History) -> FieldWindow:
    window = FieldWindow()
    window.read(history, range(HOURS))
    return window


AGES = np.arange(HOURS, 0.0, -1) - 0.5
ALL, ALL_BUT_THE_NEWEST = np.ones(HOURS), np.append(np.ones(HOURS - 1), 0.0)


def test_an_hour_that_does_not_count_is_as_one_that_is_not_there():
    """Even where it is the first with a value: of that nothing is known then."""
    history = history_of()
    tables = {hour: history.fields(hour) for hour in range(HOURS)}
    tables[HOURS - 1] = FieldTables.from_events(
        FieldColumn(CAMPAIGNS, np.zeros(9, np.int64)),
        {"device": FieldColumn(("tv",), np.zeros(9, np.int64))},
        (),
        (np.full(9, 0.1), np.ones(9), np.ones(9)),
    )
    window = window_of(History(history.as_of, [], tables.__getitem__))

    found = EffectsFit(window, range(HOURS)).fit(AGES, ALL_BUT_THE_NEWEST).effects
    expected = EffectsFit(window, range(HOURS - 1)).fit(AGES[:-1], ALL[:-1]).effects

    assert found is not None
    assert expected is not None
    for name in (*DEVICES, "tv"):
        ratios = [each.odds_ratios("c5", {"device": name}, 1) for each in (found, expected)]
        assert ratios[0] == pytest.approx(ratios[1], rel=1e-12), name


def test_a_fit_that_begins_where_another_ended_ends_where_one_from_nothing_does():
    window = window_of(history_of())
    begun = EffectsFit(window, range(HOURS))
    begun.fit(AGES, ALL_BUT_THE_NEWEST)

    found, afresh = begun.fit(AGES, ALL), EffectsFit(window, range(HOURS)).fit(AGES, ALL)

    assert found.effects is not None
    assert afresh.effects is not None
    both = (found.effects, afresh.effects)
    ratios = [each.odds_ratios("c5", {"device": DEVICES}, 3) for each in both]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.005)
    assert found.means == pytest.approx(afresh.means, rel=0.005)


@pytest.mark.parametrize("size", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("deviation", [0.0, 0.1, 0.4])
def test_what_is_left_out_of_a_search_is_no_better(size, deviation, monkeypatch):
    """The same variances are chosen where all are tried, in both fits; of half-lives, of which the
    second keeps what the first chose, several may do as well."""
    window = window_of(history_of(size, deviation=deviation))
    found = both_fits(window)

    monkeypatch.setattr("calibrators.fields.fit._WORSE", len(PSEUDO_COUNTS))
    monkeypatch.setattr(_Search, "_near", everywhere)
    assert both_fits(window) == found


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 9), st.integers(0, 7)),
        st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.3, 2.0])),
        max_size=60,
    ),
    st.sampled_from(HALF_LIVES),
    st.sampled_from(PSEUDO_COUNTS),
    st.sampled_from([1, 7, 1 << 14]),
)
def test_a_gain_is_that_of_predicting_each_hour_from_those_before_it(
    held, half_life, count, at_once
):
    """As two loops add it up; rows and hours in any order, some of which hold nothing."""
    cells = sorted(held)
    row, hour = np.array(cells, np.int64).reshape(-1, 2).T
    observed, expected = np.array([held[cell] for cell in cells], float).reshape(-1, 2).T
    ages = np.arange(8.0)[::-1] + 0.5
    with patch("calibrators.fields.fit._AT_ONCE", at_once):
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        parts = _Search(observed, expected, hour, starts, ages)._foreseen(half_life)

    gain = 0.0
    for one, when in cells:
        y, e = (
            sum(
                held[one, before][place] * 2 ** -((ages[before] - ages[when]) / half_life)
                for before in range(when)
                if (one, before) in held
            )
            for place in range(2)
        )
        ratio = min(max((count + y) / (count + e), 1 / 8), 8)
        gain += held[one, when][0] * log(ratio) - held[one, when][1] * (ratio - 1)
    assert sum(part.gain(count) for part in parts) == pytest.approx(gain, abs=1e-9)


def everywhere(search: _Search, _known: object) -> _Choice:
    return max(map(search._from_none, HALF_LIVES), key=lambda choice: choice.gain)


def both_fits(window: FieldWindow) -> list[dict[str, float]]:
    """Deviations of the effects, by term."""
    fit = EffectsFit(window, range(HOURS))
    found = [fit.fit(AGES, counted).notes for counted in (ALL_BUT_THE_NEWEST, ALL)]
    return [{name: term["sd"] for name, term in notes.items()} for notes in found]


def test_no_hours_have_no_effects():
    assert EffectsFit(FieldWindow(), range(0)).fit(np.empty(0), np.empty(0)).effects is None
