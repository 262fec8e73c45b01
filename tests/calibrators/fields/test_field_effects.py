"""Effects of fields: one product by every way, bytes that come back, atlases that carry them."""

import json
import struct
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.worker.fitting import filled, kept, only, replaced
from calibrators import Atlas, CalibrationMap
from calibrators.fields.columns import Given
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.sums import SEPARATOR
from calibrators.names import JsonTexts, PlainIndex, compiled, index_of
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


def texts(values: Given) -> Given:
    """As they stand in JSON, where they are an array of what may be left there."""
    if not isinstance(values, list):
        return values
    array = json.dumps(values).encode()
    # Python alone, which reads those with escapes too, needs no places.
    return JsonTexts.of(array, 256) or JsonTexts(array, bytes(8 * len(values)))


KNOWN = ("", "a", "ab", "abcdefgh", "abcdefghi", "zürich", 'q"', "b\\", "a\0", "x" * 256)
TABLE = EffectTable.of({name: place / 10 for place, name in enumerate(KNOWN)}, {"ab": 0.5})


@pytest.mark.parametrize("compiling", [True, False])
def test_texts_in_json_have_the_effects_of_lists_to_the_same_bits(monkeypatch, compiling):
    if not compiling:
        monkeypatch.setattr("calibrators.fields.effects.compiled", None)
    said = {name: [each or "none" for each in FIELDS[name]] for name in FIELDS}
    tables = ({"device": DEVICE, "place": PLACE}, {"device*place": PAIR}, {"device": OWN})
    rng = np.random.default_rng(0)
    names = ["a", "ab", "abc", "abcdefgh", "abcdefghi", "abcdefgi", "x" * 256, "x" * 255]
    many = {name: rng.choice(names, 2000).tolist() for name in ("device", "place")}

    for number in (1, 2, 3):
        effects = FieldEffects(*tables[:number])
        for fields in (said, {**said, "place": "top"}, {"device": said["device"], "colour": "red"}):
            left = {name: texts(values) for name, values in fields.items()}
            for way in ("odds_ratios", "variances"):
                found, expected = (
                    getattr(effects, way)(CAMPAIGNS, each, 5) for each in (left, fields)
                )
                assert bits(found) == bits(expected)
            expected = effects.applied(P, CAMPAIGNS, fields)
            assert bits(effects.applied(P, CAMPAIGNS, left)) == bits(expected)
            few = effects.applied_to_few(P.tolist(), CAMPAIGNS, fields)
            assert bits(np.array(few)) == bits(expected)
            assert effects.explained(CAMPAIGNS, left, 5) == effects.explained(CAMPAIGNS, fields, 5)
    effects, p = FieldEffects({"device": TABLE, "place": TABLE}), rng.random(2000)
    left = {name: texts(values) for name, values in many.items()}
    assert effects.applied(p, "", left).tobytes() == effects.applied(p, "", many).tobytes()
    codes = effects.codes("device", left["device"])
    assert codes.tobytes() == effects.codes("device", many["device"]).tobytes()
    if compiling and compiled:
        with pytest.raises(ValueError, match="unequal"):
            effects.applied(p[1:], "", left)


@pytest.mark.skipif(compiled is None, reason="there was no compiler")
@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), max_size=9) | st.sampled_from([*KNOWN, "x" * 257])
    ),
    st.booleans(),
)
def test_texts_that_are_found_are_those_that_json_has(values, is_dense):
    separators = (",", ":") if is_dense else (" , ", " : ")
    array = json.dumps(values, ensure_ascii=False, separators=separators).encode()
    unlike = [v for v in values if not v.isascii() or json.dumps(v, ensure_ascii=False) != f'"{v}"']
    plain = not unlike and all(0 < len(value) <= 256 for value in values)

    left = JsonTexts.of(array, 256)

    assert (left is not None) == (plain and len(values) > 0)
    if left is not None:
        places = np.frombuffer(left.places, np.uint32).reshape(-1, 2).tolist()
        found_there = [array[start : start + length].decode() for start, length in places]
        assert json.loads(array) == values == found_there
        expected = [KNOWN.index(value) if value in KNOWN else -1.0 for value in values]
        found, rows = np.empty(len(values)), np.empty(len(values), np.int64)
        column = np.append(np.arange(len(KNOWN)), -1.0)
        names = index_of(KNOWN)
        compiled.fill_products((left,), (names,), (column,), found, None)
        assert found.tolist() == expected
        assert left.fill(names, rows) == (-1 not in expected)
        assert (rows - 1).tolist() == expected


ODD_ARRAYS = [b"", b"[", b"]", b"[]", b'"a"', b'["a"', b'["a",]', b'[,"a"]', b'["a""b"]', b'["a"]]']
ODD_ARRAYS += [b'["a"],', b'["a",1]', b'["a",["b"]]', b'[""]', b'["a\nb"]', b'["a",\n"b"]', b'["a]']
ODD_ARRAYS += [b'["\\u0061"]', b'["\\""]', b'["\xc3\xbc"]', b'["\xff"]', b'["%s"]' % (b"x" * 257)]


@pytest.mark.skipif(compiled is None, reason="there was no compiler")
def test_what_is_no_array_of_plain_texts_is_not_found_and_nothing_is_read_beyond_it():
    table = index_of(("", "a"))
    column, found = np.array([1.0, 2.0, 3.0]), np.empty(1)
    array, place = b'["a"]', struct.pack("II", 2, 1)
    left = JsonTexts(array, place)

    for odd in ODD_ARRAYS:
        assert compiled.find_texts(odd, 256) == b""
    assert compiled.find_texts(b'[ "a" , "b"]', 256) == struct.pack("4I", 3, 1, 9, 1)
    for places in (b"", place[:7], 2 * place, *(struct.pack("II", *at) for at in BEYOND)):
        with pytest.raises(ValueError, match="unequal"):
            compiled.fill_products((JsonTexts(array, places),), (table,), (column,), found, None)
        with pytest.raises(ValueError, match="unequal"):
            table.fill_json(JsonTexts(array, places), np.empty(1, np.int64))
    for wrong in (
        ((left,), (table,), (column[:2],), found, None),
        ((left,), (table,), (column,), found, np.ones(2)),
    ):
        with pytest.raises(ValueError, match="unequal"):
            compiled.fill_products(*wrong)
    for wrong in (
        (left, (table,), (column,), found, None),
        ((left,), (), (column,), found, None),
        ((left,), (table,), (), found, None),
        ((left,), ("names",), (column,), found, None),
        ((7,), (table,), (column,), found, None),
        ((JsonTexts(7, place),), (table,), (column,), found, None),
        ((left,), (table,), (column.astype("f4"),), found, None),
        ((left,), (table,), (column,), found),
        ((left,), (table,), (column,), found, 7),
    ):
        with pytest.raises((TypeError, ValueError, IndexError, SystemError, AttributeError)):
            compiled.fill_products(*wrong)
    compiled.fill_products((left,), (table,), (column,), found, None)
    assert found.tolist() == [2.0]
    with pytest.raises(TypeError):
        compiled.find_texts("[]", 256)


BEYOND = [(5, 1), (2, 4), (6, 0), (2**32 - 1, 1), (1, 2**32 - 1), (2**32 - 1, 2**32 - 1)]
"""Places that are not in five bytes."""


def alike() -> list[str]:
    """Names of sixteen bytes, of which the second eight undo what the first did to the hash."""
    factor, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    undone, found = pow(factor, -1, 1 << 64), []
    for number in range(10**7, 10**7 + 60_000):
        first = int.from_bytes(str(number).encode(), "little") * factor & mask
        mixed = (16 ^ first ^ first >> 47) * factor & mask
        second = (mixed ^ mixed >> 47) * undone & mask
        name = str(number).encode() + second.to_bytes(8, "little")
        if name.isascii() and len(found) < 200:
            found.append(name.decode())
    return found


@pytest.mark.skipif(compiled is None, reason="there was no compiler")
def test_names_whose_hashes_are_alike_are_left_to_python():
    names = alike()
    effects = FieldEffects({"device": EffectTable.of({"": 0.0, **dict.fromkeys(names, 0.5)}, {})})
    assert isinstance(index_of(tuple(effects.tables[0]["device"].names)), PlainIndex)
    fields = {"device": [names[0], "b"]}
    left = {name: texts(values) for name, values in fields.items()}
    p = np.array([0.25, 0.5])
    assert effects.applied(p, "", left).tolist() == effects.applied(p, "", fields).tolist()


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
