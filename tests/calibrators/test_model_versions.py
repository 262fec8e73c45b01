"""Versions of a model: names, who is served by what, and what a refit makes of a canary."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.bins import hour_blocks
from app.worker.fitting import filled, kept, replaced
from calibrators import Atlas, BinsTable, CalibrationMap, History, make_method
from calibrators.bins.model_versions import by_version, campaign_of, is_version, named, parted
from calibrators.bins.packed_table import PackedTable
from calibrators.bins.table import sums_of_packed
from calibrators.guard import guard
from calibrators.methods.refit import Fitted
from calibrators.model_versions import Streams, refit_by_version
from calibrators.samples import Floats, expit

_CAMPAIGNS = 12
_CENTRES = np.random.default_rng(1).normal(-3.0, 0.5, _CAMPAIGNS)
_OFF = np.random.default_rng(2).normal(0.2, 0.2, _CAMPAIGNS)


@dataclass
class Impressions:
    """Log-odds of the first model, its error left out, the canary's, and whether it scored."""

    campaigns: list[str]
    rows: np.ndarray
    truth: Floats
    first: Floats
    canary: Floats

    def names(self, version: str | None) -> list[str]:
        return [named(name, version) for name in self.campaigns]


def _impressions(hour: int, count: int) -> Impressions:
    rng = np.random.default_rng((3, hour, count))
    rows = rng.integers(0, _CAMPAIGNS, count)
    first = _CENTRES[rows] + rng.normal(0.0, 0.9, count)
    truth = expit(first + _OFF[rows])
    names = [f"c{row:02d}" for row in range(_CAMPAIGNS)]
    return Impressions(names, rows, truth, expit(first), expit(0.7 * first - 0.2))


def _table(hour: int, count: int, version: str | None, *, canary: bool) -> BinsTable:
    one = _impressions(hour, count)
    outcomes = (np.random.default_rng((4, hour)).random(count) < one.truth) * 1.0
    scores = one.canary if canary else one.first
    return BinsTable.from_columns(one.names(version), one.rows, scores, np.ones(count), outcomes)


@cache
def _canary_tables(version: str | None) -> dict[int, BinsTable]:
    """Ten hours, the last four with a canary of a twentieth of the traffic."""
    tables = {hour: _table(hour, 8_000, None, canary=False) for hour in range(10)}
    for hour in range(6, 10):
        both = tables[hour], _table(hour, 400, version, canary=True)
        tables[hour] = BinsTable.merge(both)
    return tables


@cache
def _with_canary() -> Fitted:
    return refit_by_version(make_method("pooled"), History(10, [_canary_tables("v2")]))


def _excess(atlas: Atlas, version: str | None) -> float:
    one = _impressions(99, 20_000)
    p, q = atlas.look_up(atlas.rows(one.names(version))[one.rows], one.canary), one.truth
    return float((q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))).mean())


def test_a_canary_has_a_fifth_of_the_excess_of_maps_that_are_blind_to_it():
    seen = _with_canary()
    blind = refit_by_version(make_method("pooled"), History(10, [_canary_tables(None)]))
    assert _excess(seen.atlas, "v2") < 0.2 * _excess(blind.atlas, None)
    assert seen.notes["model_versions"] == {"v2": 1600.0}


def test_every_version_has_a_map_of_each_campaign_and_of_new_ones_with_spreads():
    atlas = _with_canary().atlas
    assert {*map(parted, atlas.campaigns)} >= {("c03", "v2"), ("", "v2"), ("c03", None)}
    assert atlas.spreads is not None
    assert len(atlas.spreads) == len(atlas.columns())
    again = Atlas.from_bytes(atlas.to_bytes())
    assert again.at(named("c03", "v2"), 0.1) == atlas.at(named("c03", "v2"), 0.1)


@pytest.mark.parametrize("method", ["pooled", "sir"])
def test_without_versions_a_refit_is_the_methods_own_to_the_last_bit(method):
    history = History(8, [{hour: _table(hour, 4_000, None, canary=False) for hour in range(8)}])
    found = refit_by_version(make_method(method), history, trial=True)
    own = make_method(method).refit(history, trial=True)
    assert found.atlas.to_bytes() == own.atlas.to_bytes()
    assert found.trial.to_bytes() == own.trial.to_bytes()
    assert found.notes == own.notes


def test_a_version_with_few_impressions_keeps_the_scale_of_the_others():
    tables = {hour: _table(hour, 4_000, None, canary=False) for hour in range(6)}
    tables[5] = BinsTable.merge((tables[5], _table(5, 60, "v2", canary=True)))
    atlas = refit_by_version(make_method("pooled"), History(6, [tables])).atlas
    ours, theirs = (atlas.at(named("c03", version), 0.05) for version in ("v2", None))
    assert ours == pytest.approx(theirs, rel=0.1)


def test_eight_versions_have_maps_and_the_rest_count_as_none():
    parts = [_table(0, 200 + 10 * n, f"v{n}", canary=False) for n in range(10)]
    history = History(1, [{0: BinsTable.merge(parts)}])
    streams = Streams.of(history, 48)
    assert sorted(streams.named) == [f"v{n}" for n in range(2, 10)]
    assert streams.impressions[None] == 410.0
    assert streams.carried_over({0: BinsTable.merge(parts)})[0].totals()[0].sum() == 2450.0


def test_the_reference_is_the_version_of_the_newest_day_with_the_most():
    tables = {0: _table(0, 9_000, "old", canary=False), 40: _table(40, 500, "new", canary=False)}
    atlas = refit_by_version(make_method("pooled"), History(41, [tables])).atlas
    assert Streams.of(History(41, [tables]), 48).reference == "new"
    assert atlas.at("c03", 0.05) == atlas.at(named("c03", "new"), 0.05)


def test_scores_go_to_the_reference_and_back():
    streams = Streams.of(History(10, [_canary_tables("v2")]), 48)
    values, rows = np.linspace(-9.0, 1.0, 60), np.arange(60) % _CAMPAIGNS - 1
    there = streams.to_reference("v2", values, rows)
    np.testing.assert_allclose(streams.from_reference("v2", there, rows), values, atol=1e-9)


def test_maps_of_before_a_version_are_compared_on_its_scale():
    """What the guard holds a new version's maps against gives the same quantile the same value."""
    before = Atlas.build({"c03": CalibrationMap([0.0, 0.1, 1.0], [0.0, 0.2, 1.0])})
    compared = _with_canary().scale.on_scale(before, 9.0)
    moved = expit(np.array([0.7 * np.log(0.1 / 0.9) - 0.2]))[0]
    assert compared.at("c03", 0.1) == pytest.approx(0.2)
    assert compared.at(named("c03", "v2"), moved) == pytest.approx(0.2, rel=0.25)


def test_a_version_that_nobody_knew_is_worth_a_refit_within_the_hour():
    first = {hour: table for hour, table in _canary_tables("v2").items() if hour < 6}
    before = refit_by_version(make_method("pooled"), History(6, [first]))
    for as_of, scale, is_new in ((6, before.scale, True), (10, _with_canary().scale, False)):
        running = BinsTable.merge(
            (_table(as_of, 900, None, canary=False), _table(as_of, 300, "v2", canary=True))
        )
        assert scale.changed(as_of, running) is is_new
        few = _table(as_of, 99, "v3", canary=True)
        assert not scale.changed(as_of, few)


def test_who_has_no_map_is_served_by_its_versions_and_then_by_the_campaigns():
    maps = {
        name: CalibrationMap.proportional(factor)
        for name, factor in (("a", 0.5), (named("a", "v1"), 0.4), (named("", "v1"), 0.3))
    }
    atlas = Atlas.build(maps, CalibrationMap.proportional(0.2))
    names = [named("a", "v1"), named("b", "v1"), named("a", "v9"), named("b", "v9"), "a", "b"]
    wanted = [0.4, 0.3, 0.5, 0.2, 0.5, 0.2]
    np.testing.assert_allclose(atlas(names, np.full(6, 0.1)), np.array(wanted) * 0.1)
    assert [atlas.at(name, 0.1) for name in names] == pytest.approx(np.array(wanted) * 0.1)


@given(st.text(min_size=1), st.one_of(st.none(), st.text(min_size=1).filter(is_version)))
def test_a_name_is_parted_into_what_it_was_made_of(campaign, version):
    if "\x1e" not in campaign:
        assert parted(named(campaign, version)) == (campaign, version)


@pytest.mark.parametrize("version", ["", "a\nb", "\x1e", "x" * 65, "ä" * 33])
def test_a_version_is_printable_and_not_long(version):
    assert not is_version(version)
    assert is_version("2026-11-26 model β")


def test_names_that_nobody_should_send_do_not_stop_a_refit():
    rows, ones = np.arange(5), np.ones(5)
    names = ["a", "a\x1eb", "a\x1eb\x1ec", "\x1eb", "\x1e"]
    table = BinsTable.from_columns(names, rows, ones / 2, 300 * ones, 150 * ones)
    atlas = refit_by_version(make_method("pooled"), History(1, [{0: table}])).atlas
    assert {*map(parted, atlas.campaigns)} >= {("a", None), ("a", "b"), ("a", "b\x1ec")}


def test_tables_are_taken_apart_by_version_and_put_together_again():
    table = BinsTable.merge(_table(0, 50, version, canary=False) for version in (None, "v1", "v2"))
    parts = by_version(table)
    assert [part.totals()[0].sum() for part in parts.values()] == [50.0] * 3
    assert BinsTable.merge(parts.values()) == table.without_versions()
    assert {*map(campaign_of, table.campaigns)} == {*table.without_versions().campaigns}


def test_all_names_of_a_campaign_are_in_one_block():
    """Whatever the blocks' size, with names that sort between a campaign and its versions."""
    ends = ("", "\x00", "\x1ev1", "\x1ev2")
    names = sorted(f"c{number:03d}{end}" for number in range(150) for end in ends)
    rows, ones = np.repeat(np.arange(len(names)), 900), np.ones(900 * len(names))
    scores = np.tile(np.linspace(0.0, 1.0, 900), len(names))
    table = BinsTable.from_columns(names, rows, scores, ones, ones)
    packed = PackedTable.from_bytes(table.to_bytes())

    blocks = [block[1] for block in hour_blocks({1: packed, 2: packed}, 7)]
    sums = sums_of_packed({1: packed, 2: packed}, [range(1, 3)])
    assert sums is not None
    for parts in (blocks, [part for (part,) in sums], [*BinsTable.merge_in_blocks([packed] * 2)]):
        campaigns = [{*map(campaign_of, part.campaigns)} for part in parts]
        assert len(parts) > 1
        assert sum(map(len, campaigns)) == len(set().union(*campaigns)) == 300
        assert sorted(name for part in parts for name in part.campaigns) == names


def _steady_hour(seed: int, shift: float) -> BinsTable:
    """v2 scores most, too high by a shift; what names no version scores too low."""
    rng = np.random.default_rng(seed)
    rows, z = rng.integers(0, 20, 40_000), rng.normal(-3.0, 1.0, 40_000)
    by_v2 = rng.random(40_000) > 0.1
    names = [named(f"c{n:02d}", version) for version in (None, "v2") for n in range(20)]
    outcomes = (rng.random(40_000) < expit(z)) * 1.0
    scores = expit(z + np.where(by_v2, shift, -1.0))
    return BinsTable.from_columns(names, rows + 20 * by_v2, scores, np.ones(40_000), outcomes)


def test_the_guard_looks_at_each_version_by_itself():
    """What new campaigns get is not tested on the scores of another version, nor lost."""
    hours = {hour: _steady_hour(hour, 2.5) for hour in range(6)}
    method = make_method("pooled")
    before = refit_by_version(method, History(5, [{h: hours[h] for h in range(5)}]), trial=True)
    after = refit_by_version(method, History(6, [hours]), trial=True, memory=before.memory)
    assert after.trial is not None
    in_force = filled(before.atlas, before.atlas.with_own({"new": CalibrationMap.identity()}))

    found = guard(after.atlas, after.trial, in_force, [hours[5]])

    assert found.target_decision == "passed"
    for name in ("x", "x\x1ev2", "c03", "c03\x1ev2"):
        assert found.atlas.at(name, 0.1) == pytest.approx(after.atlas.at(name, 0.1), rel=0.02)
    broken = after.atlas.with_own({"c03\x1ev2": CalibrationMap.proportional(0.01)})
    kept = guard(broken, broken, in_force, [hours[5]])
    assert kept.decisions["c03\x1ev2"] == "kept"
    assert kept.atlas.at("c03\x1ev2", 0.1) == pytest.approx(in_force.at("c03\x1ev2", 0.1))
    aside = guard(broken, broken, in_force, [hours[5]], set_aside={"c03"})
    assert aside.decisions["c03\x1ev2"] == "bounded"


def test_a_version_that_the_window_has_no_more_has_no_maps():
    maps = {name: CalibrationMap.proportional(0.3) for name in ("a", "a\x1eold", "\x1eold")}
    in_force, hour = Atlas.build(maps), _steady_hour(0, 0.0)
    for left in ({"a": maps["a"]}, {"a": maps["a"], "a\x1enew": maps["a"]}):
        found = guard(Atlas.build(left), Atlas.build(left), in_force, [hour]).atlas
        assert {*found.campaigns} - {"\x1enew"} == {*left}
        assert kept(Atlas.build(left), in_force, ["a"]).campaigns == (*left,)


def _canary_of(scored: Callable[[Floats, np.random.Generator], Floats], share: float) -> Fitted:
    """What twelve hours teach of two versions, whose scores are rounded; the canary's are made of
    the log-odds of the main one's, which are true."""
    hours = {}
    for hour in range(12):
        rng = np.random.default_rng((7, hour))
        rows, z = rng.integers(0, 20, 10_000), rng.normal(-3.0, 0.8, 10_000)
        by_canary = rng.random(10_000) < share
        names = [named(f"c{n:02d}", version) for version in ("a", "b") for n in range(20)]
        scores = np.round(expit(np.where(by_canary, scored(z, rng), z)), 2)
        outcomes = (rng.random(10_000) < expit(z)) * 1.0
        columns = rows + 20 * by_canary, scores, np.ones(10_000), outcomes
        hours[hour] = BinsTable.from_columns(names, *columns)
    return refit_by_version(make_method("pooled"), History(12.0, [hours]))


_LOWER, _COARSE, _BLIND = (
    lambda z, rng: z - 1.0,
    lambda z, rng: np.where(z > -3.0, -2.0, -4.0),
    lambda z, rng: rng.permutation(z),
)


@pytest.mark.parametrize(
    ("scored", "share"), [(_LOWER, 0.05), (_LOWER, 0.3), (_COARSE, 0.05), (_BLIND, 0.05)]
)
def test_new_campaigns_of_versions_with_few_scores_get_their_rate(scored, share):
    """Where many impressions share a score, it stands for the middle of their ranks; and what a
    version's own curve is like makes none of them predict more than comes."""
    atlas = _canary_of(scored, share).atlas
    rng = np.random.default_rng(9)
    z = rng.normal(-3.0, 0.8, 20_000)

    for version, own in (("a", z), ("b", scored(z, rng))):
        found = atlas([named("new", version)] * len(z), np.round(expit(own), 2))
        assert found.sum() / expit(z).sum() == pytest.approx(1.0, abs=0.12)


def test_a_campaign_that_is_kept_is_so_in_versions_that_it_has_no_map_of():
    maps = {name: CalibrationMap.proportional(0.3) for name in ("a", "\x1ev2", "b\x1ev2")}
    served = kept(Atlas.build(maps), Atlas.empty(), ["a", "c"])
    names = ["a", "a\x1ev2", "c", "c\x1ev2", "c\x1ev9"]
    assert [served.at(name, 0.5) for name in names] == [0.5] * 5
    assert served.at("b\x1ev2", 0.5) == 0.15
    other = replaced(Atlas.build(maps), Atlas.build({"d": CalibrationMap.proportional(0.9)}), ["d"])
    assert [other.at(name, 0.5) for name in ("d", "d\x1ev2")] == [0.45] * 2
