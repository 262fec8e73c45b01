"""Effects of fields: one product by every way, bytes that come back, atlases that carry them."""

from collections.abc import Mapping

import numpy as np
import pytest

from app.worker.fitting import filled, kept, only, replaced
from calibrators import Atlas, CalibrationMap
from calibrators.fields.effects import EffectTable, FieldEffects, Given
from calibrators.fields.sums import SEPARATOR
from calibrators.samples import Floats
from tests.calibrators.damage import assert_refused_or_sound

DEVICE = EffectTable.of({"": 0.1, "ios": 0.7, "web": -0.3}, {"ios": 0.2})
PLACE = EffectTable.of({"": 0.0, "top": 0.4}, {"top": 0.1})
PAIR = EffectTable.of({SEPARATOR.join(("ios", "top")): -0.2}, {})
OWN = EffectTable.of({SEPARATOR.join(("a", "web")): 0.5}, {SEPARATOR.join(("a", "web")): 0.3})
EFFECTS = FieldEffects({"device": DEVICE, "place": PLACE}, {"device*place": PAIR}, {"device": OWN})
CAMPAIGNS = ["a", "a", "b", "b", "a"]
FIELDS: Mapping[str, Given] = {
    "device": ["ios", "web", "web", "unknown", ""],
    "place": ["top", "top", "bottom", "top", "top"],
}
LOG_ODDS = [0.7 + 0.4 - 0.2, -0.3 + 0.4 + 0.5, -0.3, 0.1 + 0.4, 0.1 + 0.4]
P = np.array([0.0, 0.01, 0.3, 0.97, 1.0])


def bits(values: Floats | float) -> bytes:
    return np.broadcast_to(values, len(P)).tobytes()


def test_the_terms_of_a_score_are_summed_in_log_odds():
    assert np.log(EFFECTS.odds_ratios(CAMPAIGNS, FIELDS, 5)) == pytest.approx(LOG_ODDS)
    first, second, *_ = EFFECTS.explained(CAMPAIGNS, FIELDS, 5)
    assert first == pytest.approx(
        {"device": 0.7, "place": 0.4, "device*place": -0.2, "campaign*device": 0.0}
    )
    assert second["campaign*device"] == pytest.approx(0.5)


def test_variances_are_summed_and_what_has_no_row_is_as_uncertain_as_the_least_certain():
    """In turn: values, a pair without a row; a campaign's deviation; a campaign and a value without
    rows; a value without a row; and a field without a value, which adds nothing."""
    found = EFFECTS.variances(CAMPAIGNS, FIELDS, 5)

    known = [0.04 + 0.01 + 0.09, 0.0 + 0.01 + 0.09, 0.0 + 0.01 + 0.09, 0.04 + 0.01 + 0.09, 0.01]
    assert found == pytest.approx(known)
    assert not EFFECTS.variances(CAMPAIGNS, {}, 5).any()
    one = EFFECTS.variances("a", {"device": "web", "place": "top"}, 5)
    assert one.tolist() == [found[1]] * 5


def test_every_way_gives_the_same_bits(monkeypatch):
    codes = {name: EFFECTS.codes(name, FIELDS[name]) for name in EFFECTS.fields}
    expected = EFFECTS.applied(P, CAMPAIGNS, FIELDS)
    rows = list(zip(FIELDS["device"], FIELDS["place"], strict=True))

    assert expected[0] == 0.0
    assert expected[-1] == 1.0
    odds = P[1:-1] / (1 - P[1:-1]) * np.exp(LOG_ODDS[1:-1])
    assert expected[1:-1] == pytest.approx(odds / (1 + odds))
    assert bits(EFFECTS.applied(P, CAMPAIGNS, codes)) == bits(expected)
    fields = (dict(zip(FIELDS, row, strict=True)) for row in rows)
    alone = [EFFECTS.odds_ratios(*each, 1) for each in zip(CAMPAIGNS, fields, strict=True)]
    assert bits(EFFECTS.odds_ratios(CAMPAIGNS, FIELDS, len(P))) == bits(np.ravel(alone))
    variances = EFFECTS.variances(CAMPAIGNS, FIELDS, 5)
    assert bits(EFFECTS.variances(CAMPAIGNS, codes, 5)) == bits(variances)
    monkeypatch.setattr("calibrators.fields.effects._FEW", 0)
    assert bits(EFFECTS.applied(P, CAMPAIGNS, FIELDS)) == bits(expected)


def test_fields_of_many_combinations_are_searched_one_by_one_to_the_same_bits(monkeypatch):
    together = FieldEffects({"device": DEVICE, "place": PLACE})
    monkeypatch.setattr("calibrators.fields.effects._REMEMBERED", 5)
    alone = FieldEffects({"device": DEVICE, "place": PLACE})

    for fields in (FIELDS, {**FIELDS, "place": "top"}, {"place": ["top", ""] * 2 + ["side"]}):
        for way in ("odds_ratios", "variances"):
            found, expected = (getattr(each, way)("", fields, 5) for each in (alone, together))
            assert bits(found) == bits(expected)
    assert not alone._remembers


def test_one_value_for_all_and_fields_that_are_not_given():
    each = EFFECTS.odds_ratios("a", {"device": ["web"] * 5}, 5)

    assert bits(EFFECTS.odds_ratios("a", {"device": "web"}, 5)) == bits(each)
    assert np.log(EFFECTS.odds_ratios("b", {}, 5)) == pytest.approx(0.1)
    assert bits(EFFECTS.odds_ratios("b", {"colour": "red"}, 5)) == bits(
        EFFECTS.odds_ratios("b", {}, 5)
    )


@pytest.mark.parametrize(
    ("tables", "rule"),
    [
        (({"device": OWN},), "first row must be that of other"),
        (({"device": DEVICE}, {"device*place": PAIR}), "place is none of the fields"),
        (({"device": PLACE}, {}, {"device": OWN}), "'web' has no row of its own"),
        (({"device": EffectTable.of({"": 10.0}, {})},), "must be in"),
        (({"device": EffectTable.of({"": 0.0}, {"": np.inf})},), "must be finite"),
        (({str(i): PLACE for i in range(21)},), "at most 20"),
    ],
)
def test_what_breaks_a_rule_is_refused(tables, rule):
    with pytest.raises(ValueError, match=rule):
        FieldEffects(*tables)


@pytest.mark.slow
def test_bytes_come_back_and_damaged_ones_are_refused_or_sound():
    def assert_sound(effects: FieldEffects) -> None:
        assert FieldEffects.from_bytes(effects.to_bytes()).to_bytes() == effects.to_bytes()
        assert np.isfinite(effects.odds_ratios("a", {}, 1))

    data = EFFECTS.to_bytes()
    assert FieldEffects.from_bytes(data).to_bytes() == data
    assert assert_refused_or_sound(FieldEffects.from_bytes, data, assert_sound) > 300


@pytest.mark.parametrize("campaign", ["a", "b"])
def test_an_atlas_carries_its_effects(campaign):
    own = {name: CalibrationMap.proportional(0.5) for name in ("a", "b")}
    bare = Atlas.build(own, CalibrationMap.proportional(3.0))
    atlas = bare.with_effects(EFFECTS)
    made = (
        Atlas.from_bytes(atlas.to_bytes()),
        atlas.with_own({campaign: CalibrationMap.identity()}),
        only(atlas, [campaign]),
        replaced(atlas, bare, [campaign]),
        kept(atlas, bare, [campaign]),
        filled(atlas, bare),
        filled(bare, atlas),
    )

    for each in made:
        assert each.effects.to_bytes() == EFFECTS.to_bytes()
    assert made[0].to_bytes() == atlas.to_bytes()
    assert made[0]([campaign], [0.2]).tolist() == bare([campaign], [0.2]).tolist()
    assert bare.with_effects(None) is bare
    assert atlas.with_effects(None).to_bytes() == bare.to_bytes()


@pytest.mark.slow
def test_damaged_bytes_of_an_atlas_with_effects_are_refused_or_sound():
    """With few effects: the test of their own bytes has all kinds of them."""

    def assert_sound(atlas: Atlas) -> None:
        assert Atlas.from_bytes(atlas.to_bytes()).to_bytes() == atlas.to_bytes()

    data = Atlas.empty().with_effects(FieldEffects({"device": DEVICE})).to_bytes()
    assert assert_refused_or_sound(Atlas.from_bytes, data, assert_sound) > 300
