"""JSON from strangers: nothing is coerced, every refusal names field, value and rule."""

import json
import math
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.strict_json import (
    InvalidNumber,
    MalformedJson,
    ValidationError,
    convert,
    decode,
    loads,
    show,
)


class Item(msgspec.Struct, forbid_unknown_fields=True):
    score: Annotated[float, msgspec.Meta(ge=0, le=1)]
    scores: dict[str, float] = {}
    words: list[str] = []


class Basket(msgspec.Struct, forbid_unknown_fields=True):
    items: list[Item]
    number: float = 0


RULES = {"score": "must be in [0, 1]", "scores[]": "must be a number", "items[]": "must be an item"}
BASKETS = msgspec.json.Decoder(Basket)


def refused(body):
    with pytest.raises(ValidationError) as broken:
        decode(body if isinstance(body, bytes) else json.dumps(body).encode(), BASKETS, RULES)
    return broken.value


def test_good_json_is_decoded():
    assert decode(b'{"items": [{"score": 1}]}', BASKETS, RULES) == Basket([Item(1.0)])


@pytest.mark.parametrize(
    ("body", "field", "rule", "value"),
    [
        ({"items": [{"score": 2}]}, "items[0].score", "must be in [0, 1]", "2"),
        ({"items": [{"score": 1}, 7]}, "items[1]", "must be an item", "7"),
        ({"items": [{}]}, "items[0].score", "is required", None),
        ({}, "items", "is required", None),
        ({"item": 1}, "item", "unknown field", None),
        ({"items": 7}, "items", "expected array, got number", "7"),
        ({"items": [], "number": "1"}, "number", "expected number, got string", '"1"'),
        ([], "body", "expected object, got array", "[]"),
        (
            {"items": [{"score": 1, "scores": {"a": 1, "b": "x"}}]},
            "items[0].scores.b",
            "must be a number",
            '"x"',
        ),
        (
            {"items": [{"score": 1, "words": ["a", 7]}]},
            "items[0].words[1]",
            "expected string, got number",
            "7",
        ),
        (
            {"items": [{"score": 1, "words": ["a", math.nan]}]},
            "items[0].words[1]",
            "expected string, got no finite number",
            "NaN",
        ),
    ],
)
def test_field_rule_and_value_are_named(body, field, rule, value):
    """Whether or not the field has a rule of its own."""
    error = refused(body)

    assert (error.field, error.rule, error.value) == (field, rule, value)
    assert str(error) == f"{field}{f' = {value}' if value else ''}: {rule}"


def test_without_a_rule_an_object_names_the_value_all_the_same():
    with pytest.raises(ValidationError) as broken:
        convert({"a": 1, "b": "x"}, dict[str, int], {})

    assert (broken.value.field, broken.value.rule) == ("b", "expected integer, got string")


@pytest.mark.parametrize("place", [0, 1, 2, 499, 500, 998, 999])
def test_the_first_of_many_items_is_named(place):
    items = [0] * place + ["x"] + [0] * (999 - place) + ["y"]

    with pytest.raises(ValidationError) as broken:
        convert(items, list[int], {"[]": "must be a number"})

    assert str(broken.value) == f'[{place}] = "x": must be a number'


NAMES = st.text(max_size=20) | st.sampled_from(
    [" - at `$.items[0]", "x` - at `$", "`", "\n", "a - at `$.items`", "' - at `$.score`", "[...]"]
)


@given(name=NAMES.filter(lambda name: name not in {"score", "scores", "words", "items", "number"}))
def test_an_unknown_name_is_only_a_name(name):
    """Not even one that looks like the decoder's own messages leads astray."""
    body = {"items": [{"score": 1, name: 1}]}

    try:
        json.dumps(name, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(MalformedJson):
            decode(json.dumps(body).encode(), BASKETS, RULES)
        return
    whole, nested = refused({"items": [], name: 1}), refused(body)
    assert (whole.field, whole.rule) == (name, "unknown field")
    assert (nested.field, nested.rule) == (f"items[0].{name}", "unknown field")


@pytest.mark.parametrize("name", ["x" * 10**6, "\n" * 10**6, "x - at `$." * 10**5])
def test_a_refusal_is_short_whatever_it_is_about(name):
    for body in ({name: 1}, {"items": name}, {"items": [name]}, {"items": [{"score": name}]}):
        assert len(str(refused(body))) < 200


@pytest.mark.parametrize(
    ("literal", "shown"),
    [
        (b"NaN", "NaN"),
        (b"-Infinity", "-Infinity"),
        (b"1e400", "1e400"),
        (b"-1e999", "-1e999"),
        (b"9" * 309, "9" * 61 + "..."),
        (b"9" * 5000, "9" * 61 + "..."),
        (b"-" + b"9" * 400, "-" + "9" * 60 + "..."),
    ],
)
def test_what_is_no_number_is_no_number(literal, shown):
    error = refused(b'{"items": [{"score": %s}]}' % literal)

    assert (error.field, error.value) == ("items[0].score", shown)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**300])
def test_large_integers_are_numbers(number):
    """As the fast path takes them: exact while they fit into 64 bits, as a float above."""
    assert loads(str(number).encode()) == pytest.approx(number)
    assert convert(loads(str(number).encode()), float, {}) == msgspec.json.decode(
        str(number), type=float
    )


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists))
def test_any_json_is_read_or_malformed(value):
    text = json.dumps(value).encode()

    try:
        read = loads(text)
    except MalformedJson:
        assert b"\\ud" in text
    else:
        assert isinstance(read, list | InvalidNumber | type(value) | float)


@pytest.mark.parametrize("depth", [300, 5_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_is_malformed(depth, opening, closing):
    with pytest.raises(MalformedJson, match="nested too deeply"):
        loads(opening * depth + b"1" + closing * depth)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1,]", b"nan", b"\xff", b'"\\ud800"', b"1 2", b'"\n"']
)
def test_what_is_no_json_is_malformed(text):
    with pytest.raises(MalformedJson):
        decode(text, BASKETS, RULES)


@given(
    st.fixed_dictionaries(
        {"items": st.lists(st.fixed_dictionaries({"score": st.floats(0, 1) | st.integers(0, 2)}))},
        optional={"number": st.integers() | st.floats() | st.booleans()},
    )
)
def test_the_slow_reader_accepts_what_the_fast_one_does(body):
    """And refuses the rest by name: numbers of any size, NaN, Infinity and truth values."""
    text = json.dumps(body).encode()

    try:
        fast = BASKETS.decode(text)
    except msgspec.DecodeError:
        assert refused(text).field
    else:
        assert convert(loads(text), Basket, RULES) == fast


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (0.1, "0.1"),
        ("ä\n", '"\\u00e4\\n"'),
        ("x" * 62, '"' + "x" * 62 + '"'),
        ("x" * 63, '"' + "x" * 60 + "..."),
        ([1, InvalidNumber("NaN")], '[1, "NaN"]'),
        ([0] * 65, "an array of 65"),
        (dict.fromkeys(map(str, range(65))), "an object of 65"),
        (InvalidNumber("1e400"), "1e400"),
        (math.inf, "Infinity"),
        (b"bytes", "\"b'bytes'\""),
    ],
)
def test_values_are_shown_as_json_of_at_most_64_characters(value, shown):
    assert show(value) == shown
    assert len(shown) <= 64
