"""From bytes to events: a fast path for good bodies, a slow one for the rest, the same events."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events.schema import (
    Behaviour,
    Click,
    Conversion,
    Impression,
    TargetOutcome,
    TooManyEvents,
    is_array,
    parse_all,
    parse_each,
)
from app.strict_json import MalformedJson, ValidationError

MOST = 100
SCORES = st.floats(0, 1) | st.sampled_from([0, 1])
TIMES = st.floats(-1e18, 1e18) | st.integers(-(2**70), 2**70) | st.just("2026-01-01T00:00:00+05:30")
MONEY = st.none() | st.floats(0, sys.float_info.max) | st.integers(0, 10**300)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCORED = st.dictionaries(TEXT, SCORES)
COMMON = {"campaign": TEXT, "occurred_at": TIMES}
IMPRESSIONS = st.fixed_dictionaries(
    {"type": st.just("impression"), **COMMON, "scores": SCORED},
    optional={"id": st.none() | TEXT, "bid": MONEY, "cost": MONEY},
)
CLICKS = st.fixed_dictionaries(
    {
        "type": st.just("click"),
        **COMMON,
        "click_id": TEXT,
        "impression_at": TIMES,
        "scores": SCORED,
    },
    optional={"features": st.none() | st.dictionaries(TEXT, st.integers() | TEXT)},
)
OUTCOMES = st.fixed_dictionaries(
    {"type": st.just("outcome"), **COMMON, "target": TEXT, "score": SCORES, "outcome": SCORES}
)
BEHAVIOURS = st.fixed_dictionaries(
    {
        "type": st.just("behaviour"),
        "click_id": TEXT,
        "occurred_at": TIMES,
        "name": TEXT,
        "value": st.floats(0, sys.float_info.max) | st.integers(0, 10**300),
    }
)
CONVERSIONS = st.fixed_dictionaries(
    {"type": st.just("conversion"), "click_id": TEXT, "occurred_at": TIMES},
    optional={"target": st.none() | TEXT, "value": MONEY},
)
EVENTS = st.lists(IMPRESSIONS | CLICKS | OUTCOMES | BEHAVIOURS | CONVERSIONS, max_size=5)
GOOD = {
    "type": "outcome",
    "campaign": "a",
    "target": "b",
    "occurred_at": 1,
    "score": 0,
    "outcome": 1,
}


def body_of(events, lines):
    if lines:
        return b"\n".join(json.dumps(event).encode() for event in events)
    return json.dumps(events).encode()


@given(events=EVENTS, lines=st.booleans())
def test_both_paths_read_the_same_events(events, lines):
    """A broken neighbour must not change what a good event means."""
    body = body_of(events, lines)

    fast, slow = parse_all(body, MOST, lines=lines), parse_each(body, MOST, lines=lines)

    assert slow.rejections == []
    if fast is not None:
        assert list(fast.events) == slow.events
        assert list(fast.indices) == slow.indices == list(range(len(events)))


@pytest.mark.parametrize("lines", [False, True])
def test_every_type_of_event_is_read(lines):
    impression = {"type": "impression", "campaign": "a", "occurred_at": 1, "scores": {}}
    click = {**impression, "type": "click", "click_id": "1", "impression_at": 2}

    named = {"click_id": "1", "occurred_at": 1}
    behaviour = {**named, "type": "behaviour", "name": "carts", "value": 2}
    conversion = {**named, "type": "conversion"}
    events = [impression, click, behaviour, conversion, GOOD]

    parsed = parse_all(body_of(events, lines), MOST, lines=lines)

    kinds = [Impression, Click, Behaviour, Conversion, TargetOutcome]
    assert list(map(type, parsed.events)) == kinds
    assert parsed.events[0].occurred_at == 1.0
    assert isinstance(parsed.events[0].occurred_at, float)


@pytest.mark.parametrize("lines", [False, True])
def test_good_events_survive_broken_ones_and_keep_their_places(lines):
    body = body_of([7, GOOD, {"type": "view"}, {**GOOD, "score": 2}, GOOD], lines)

    assert parse_all(body, MOST, lines=lines) is None
    parsed = parse_each(body, MOST, lines=lines)

    assert len(parsed) == 5
    assert parsed.indices == [1, 4]
    assert [(r.index, r.event_type, r.reason) for r in parsed.rejections] == [
        (0, "unknown", "invalid"),
        (2, "unknown", "invalid"),
        (3, "outcome", "invalid"),
    ]


@pytest.mark.parametrize("event_type", [["outcome"], {"a": 1}, 7, None])
def test_the_type_of_a_rejection_is_one_of_the_known(event_type):
    """It becomes a label of a metric."""
    parsed = parse_each(json.dumps([{"type": event_type}]).encode(), MOST, lines=False)

    assert parsed.rejections[0].event_type == "unknown"


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("parse", [parse_all, parse_each])
def test_the_number_of_events_is_bounded(parse, lines):
    assert len(parse(body_of([GOOD] * MOST, lines), MOST, lines=lines)) == MOST
    with pytest.raises(TooManyEvents, match="events = 101: one request takes at most 100"):
        parse(body_of([GOOD] * (MOST + 1), lines), MOST, lines=lines)


def test_what_is_no_array_and_no_json_is_told_apart():
    with pytest.raises(ValidationError, match="must be a JSON array or one JSON object per line"):
        parse_each(b"{}", MOST, lines=False)
    with pytest.raises(MalformedJson):
        parse_each(b"[", MOST, lines=False)


@pytest.mark.parametrize("body", [b"[]", b" \r\n\t[1]", b"["])
def test_an_array_begins_with_a_bracket(body):
    assert is_array(body)


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b"{}\n[]", b"\xef\xbb\xbf[]"])
def test_anything_else_is_lines(body):
    assert not is_array(body)
