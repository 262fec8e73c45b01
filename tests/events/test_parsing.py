"""From bytes to events: a fast path for good pieces, a slow one for the rest, the same events."""

import json
import sys
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.events import reading
from app.events.reading import PIECE_BYTES, is_array, read_events
from app.events.rejections import MOST_SHOWN, Rejections
from app.strict_json import MalformedJson, ValidationError

MOST = 100
SCORES = st.floats(0, 1) | st.sampled_from([0, 1])
TIMES = st.floats(-1e18, 1e18) | st.integers(-(2**70), 2**70) | st.just("2026-01-01T00:00:00+05:30")
MONEY = st.none() | st.floats(0, sys.float_info.max) | st.integers(0, 10**300)
PRICE = st.none() | st.floats(0, 1e6) | st.integers(0, 10**6)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCORED = st.dictionaries(TEXT, SCORES)
TERMS = {
    "unit": st.none() | TEXT,
    "arm": st.none() | st.sampled_from(["champion", "challenger", "raw"]),
    **dict.fromkeys(("bid", "cost", "value"), PRICE),
}
COMMON = {"campaign": TEXT, "occurred_at": TIMES}
IMPRESSIONS = st.fixed_dictionaries(
    {"type": st.just("impression"), **COMMON, "scores": SCORED},
    optional={"id": st.none() | TEXT, **TERMS},
)
CLICKS = st.fixed_dictionaries(
    {
        "type": st.just("click"),
        **COMMON,
        "click_id": TEXT,
        "impression_at": TIMES,
        "scores": SCORED,
    },
    optional={"features": st.none() | st.dictionaries(TEXT, st.integers() | TEXT), **TERMS},
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


def read(body, lines, most=MOST):
    """Events by their index, and the rejections."""
    rejections = Rejections()
    pieces = list(read_events(body, most, rejections, lines=lines))
    found = [pair for one in pieces for pair in zip(one.indices, one.events, strict=True)]
    assert [index for index, _ in found] == sorted(index for index, _ in found)
    return dict(found), rejections


@given(events=EVENTS.filter(len), lines=st.booleans())
def test_a_broken_neighbour_does_not_change_what_a_good_event_means(events, lines):
    alone, none = read(body_of(events, lines), lines)
    beside, one = read(body_of([*events, 7], lines), lines)

    assert alone == beside
    assert (len(alone), len(none), len(one)) == (len(events), 0, 1)


TEXTS = ["a", "},{", '"},{"', "\\", "[", "}, {", "\u2028", "\n"]
SCRAPS = [7, [], [{}], {"a": [{}, {}]}, "},{", {"type": "view"}, None, [[{}, {}], {}]]


@given(
    kinds=st.lists(st.sampled_from([*SCRAPS, GOOD]) | st.sampled_from(TEXTS), min_size=1),
    size=st.integers(1, 60),
    indent=st.sampled_from([None, 1]),
)
def test_wherever_an_array_is_cut_it_reads_the_same(kinds, size, indent):
    """Also where strings and deeper arrays look like the end of an event."""
    events = [{**GOOD, "campaign": one} if isinstance(one, str) else one for one in kinds]
    body = json.dumps(events, indent=indent).encode()

    whole, refused = read(body, lines=False)
    with patch.object(reading, "PIECE_BYTES", size):
        cut, refused_in_pieces = read(body, lines=False)

    assert cut == whole
    assert refused_in_pieces.shown == refused.shown


@given(st.lists(st.sampled_from(b'[]{},"\\ 1a'), max_size=40).map(bytes), st.integers(1, 8))
@example(b'[{"a":1},{"a":1},]', 1)
@example(b"[1,,1]", 1)
def test_what_is_no_array_is_none_in_pieces_either(tail, size):
    """Neither does a cut make an array of what is none."""
    body = b"[" + tail
    try:
        number = len(json.loads(body))
    except ValueError:
        number = 0
    with patch.object(reading, "PIECE_BYTES", size):
        if number:
            assert len(read(body, lines=False)[1]) == number
        else:
            with pytest.raises((MalformedJson, ValidationError)):
                read(body, lines=False)


@pytest.mark.parametrize("lines", [False, True])
def test_of_many_broken_events_the_first_are_explained_and_all_are_counted(lines):
    events = [GOOD if place % 3 else {**GOOD, "score": 2} for place in range(3 * MOST_SHOWN + 30)]
    body = body_of(events, lines)
    assert len(body) > PIECE_BYTES

    found, rejections = read(body, lines, most=len(events))

    assert list(found) == [place for place in range(len(events)) if place % 3]
    assert [one.index for one in rejections.shown] == list(range(0, 3 * MOST_SHOWN, 3))
    assert rejections.counts == {("outcome", "invalid"): MOST_SHOWN + 10}


@pytest.mark.parametrize("lines", [False, True])
def test_an_event_is_bounded(lines):
    long = {**GOOD, "campaign": "a" * reading.MOST_EVENT_BYTES * 4}
    if lines:
        assert "must have at most" in read(body_of([long], lines), lines)[1].shown[0].error
    else:
        with pytest.raises(MalformedJson, match="or an event of more than 131072 bytes"):
            read(body_of([long], lines), lines)


def test_empty_lines_are_no_events():
    good = json.dumps(GOOD).encode()

    for broken in ([], [b"7"]):
        found, rejections = read(b"\n\n".join([*broken, b" ", good, b""]), lines=True)
        assert (list(found), len(rejections)) == ([len(broken)], len(broken))


@pytest.mark.parametrize("broken", [[], [b"7"], [b"{"], [b"7 7"]])
def test_a_missing_end_of_line_joins_no_events(broken):
    """Whatever stands in other lines, as where files were put end to end."""
    good = json.dumps(GOOD).encode()

    found, rejections = read(b"\n".join([*broken, good + b" " + good, good]), lines=True)

    assert [index - len(broken) for index in found] == [0, 1, 2]
    assert len(rejections) == len(broken)


@pytest.mark.parametrize("broken", [[], [b"{"]])
def test_a_carriage_return_is_a_blank_in_an_event_and_ends_one(broken):
    good = json.dumps(GOOD).encode()
    in_turns = [b"\r".join([good.replace(b",", b",\r"), good]), *broken, good]

    assert list(read(b"\n".join(in_turns), lines=True)[0]) == [0, 1, 2 + len(broken)]
    assert list(read(b"\r".join([good, *broken, good]), lines=True)[0]) == [0, 1 + len(broken)]


@pytest.mark.parametrize("event_type", [["outcome"], {"a": 1}, 7, None])
def test_the_type_of_a_rejection_is_one_of_the_known(event_type):
    """It becomes a label of a metric."""
    _, rejections = read(json.dumps([{"type": event_type}]).encode(), lines=False)

    assert rejections.counts == {("unknown", "invalid"): 1}


def test_what_is_no_array_and_no_json_is_told_apart():
    with pytest.raises(ValidationError, match="must be a JSON array or one JSON object per line"):
        read(b"{}", lines=False)
    with pytest.raises(MalformedJson):
        read(b"[", lines=False)


@pytest.mark.parametrize("body", [b"[]", b" \r\n\t[1]", b"["])
def test_an_array_begins_with_a_bracket(body):
    assert is_array(body)


@pytest.mark.parametrize("body", [b"", b"  ", b"{}", b"{}\n[]", b"\xef\xbb\xbf[]"])
def test_anything_else_is_lines(body):
    assert not is_array(body)
