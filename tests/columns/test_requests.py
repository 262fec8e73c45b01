"""Binary requests: what is written is read, and every defect is told by field, value and rule."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.columns.events import read_events
from app.columns.scores import pack_probabilities, read_scores
from app.strict_json import ValidationError
from tests.columns import bodies
from tests.columns.bodies import (
    EVENT_IDS,
    FLOAT32,
    LEVELS,
    ONE_CAMPAIGN,
    clicks_body,
    impressions_body,
    outcomes_body,
    padded,
    read_answer,
    scores_body,
)

MOST = 100
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SCORE = st.floats(0, 1)
ANY = st.floats()
PAIRS = st.lists(st.tuples(TEXT, SCORE), min_size=1, max_size=MOST)
WIDTH = {"allow_nan": False, "width": 32}


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def same(found, expected):
    """Bit for bit, NaN too."""
    return found.tobytes() == struct.pack(f"<{len(expected)}d", *expected)


@given(PAIRS, TEXT)
def test_scores_and_names_are_read_as_they_were_written(pairs, target):
    names, scores = columns(pairs)

    asked = read_scores(scores_body(scores, campaigns=names, target=target), MOST)

    assert asked.target == target
    assert [asked.names[number] for number in asked.numbers] == names
    assert same(asked.scores, scores)


@given(st.lists(st.floats(0, 1, **WIDTH), min_size=1, max_size=MOST), st.integers(0, 2**32 - 1))
def test_float32_scores_of_one_interned_campaign(scores, number):
    body = scores_body(
        scores, campaigns=[number], flags=FLOAT32 | ONE_CAMPAIGN | LEVELS, dictionary=7
    )

    asked = read_scores(body, MOST)

    assert asked.header.dictionary == 7
    assert (asked.numbers.tolist(), [*asked.names]) == ([number], [])
    assert asked.scores.tolist() == scores


def test_arrays_are_views_of_the_body():
    """Decoding copies nothing."""
    body = scores_body([0.5] * MOST, campaigns=["a"] * MOST)

    asked = read_scores(body, MOST)

    whole = np.frombuffer(body, np.uint8)
    assert np.shares_memory(asked.scores, whole)
    assert np.shares_memory(asked.numbers, whole)


@given(
    st.lists(st.tuples(SCORE, st.sampled_from([0, 1, 2])), min_size=1, max_size=MOST),
    st.integers(0, 2**64 - 1),
    st.booleans(),
)
def test_an_answer_is_read_as_it_was_written(rows, dictionary, with_levels):
    probabilities, levels = columns(rows)
    numbers = np.array(levels, np.uint8) if with_levels else None

    answer = pack_probabilities(probabilities, dictionary, float32=False, levels=numbers)

    named = [bodies.LEVEL_NAMES[level] for level in levels] if with_levels else None
    assert read_answer(answer) == (probabilities, named, dictionary)


def test_a_float32_answer_is_the_nearest():
    answer = pack_probabilities(np.array([0.1, 1.0, 1 - 2**-53]), 1, float32=True)

    assert read_answer(answer)[0] == [float(np.float32(0.1)), 1.0, 1.0]


GOOD = {"campaigns": ["a", "b"]}
SIZE = len(scores_body([0.5, 0.5], **GOOD))


@pytest.mark.parametrize(
    ("announced", "field", "value", "rule"),
    [
        ({"magic": b"SCOR"}, "columns.magic", '"SCOR"', "must be SCOL"),
        ({"kind": 0}, "columns.kind", "0", "must be 1 (scores)"),
        ({"kind": 2}, "columns.kind", "2", "must be 1 (scores)"),
        ({"kind": 3}, "columns.kind", "3", "must be 1 (scores)"),
        ({"flags": EVENT_IDS}, "columns.flags", "8", "scores have only the flags 0xf7"),
        ({"rows": 0}, "scores", None, "has 0 items; must have 1 to 100"),
        ({"rows": 101}, "scores", None, "has 101 items; must have 1 to 100"),
        ({"rows": 2**32 - 1}, "scores", None, "has 4294967295 items; must have 1 to 100"),
        ({"rows": 50}, "columns.campaigns", None, f"the body has {SIZE}"),
        ({"names": 2**32 - 1}, "columns.names", None, f"the body has {SIZE}"),
        ({"names_bytes": 2**32 - 1}, "columns.names", None, f"the body has {SIZE}"),
        ({"target_bytes": 2**32 - 1}, "columns.target", None, f"the body has {SIZE}"),
        ({"names_bytes": 1}, "columns.names", None, "the padding at byte 49 must be zero"),
        ({"names_bytes": 3}, "columns.names_bytes", "3", "the sum of the names' lengths, 2"),
        ({"dictionary": 1}, "columns.dictionary", "1", "must be 0 without interned campaigns"),
        ({"flags": 2}, "columns.names", "2", "must be 0 beside interned campaigns"),
        ({"flags": 2, "names": 0}, "columns.names_bytes", "2", "must be 0 beside interned"),
    ],
)
def test_a_header_that_lies_is_told_which_field(announced, field, value, rule):
    """Before anything is allocated by what it says."""
    with pytest.raises(ValidationError) as caught:
        read_scores(scores_body([0.5, 0.5], **GOOD, announced=announced), MOST)

    assert (caught.value.field, caught.value.value) == (field, value)
    assert rule in caught.value.rule


@given(st.data())
def test_a_body_cut_anywhere_is_refused(data):
    body = scores_body([0.5, 0.25, 1.0], campaigns=["a", "b", "a"], flags=FLOAT32)
    end = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises(ValidationError, match=r"^columns"):
        read_scores(body[:end], MOST)


def test_what_follows_the_last_section_is_refused():
    body = scores_body([0.5], campaigns=["a"])

    with pytest.raises(ValidationError, match=f"must end at byte {len(body)}, the body has"):
        read_scores(body + bytes(8), MOST)


def test_every_byte_of_padding_must_be_zero():
    """So that a later version may give it a meaning."""
    body = scores_body([0.5], campaigns=["abc"], flags=FLOAT32)
    expected = read_scores(body, MOST)
    padding = [place for place in range(32, len(body)) if _is_padding(body, place)]

    # Behind "click", one length, "abc", one index, one score.
    assert len(padding) == 3 + 4 + 5 + 4 + 4
    for place in padding:
        changed = body[:place] + b"\1" + body[place + 1 :]
        with pytest.raises(ValidationError, match="padding at byte"):
            read_scores(changed, MOST)
    assert [*read_scores(body, MOST).names] == [*expected.names]


def _is_padding(body, place):
    used = [(32, 5), (40, 4), (48, 3), (56, 4), (64, 4)]
    return not any(start <= place < start + size for start, size in used)


@pytest.mark.parametrize("score", [-5e-324, 1 + 2**-52, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 3])
def test_a_score_outside_is_named_with_its_value(score, place):
    """The same words as in JSON."""
    scores = [0.5] * 4
    scores[place] = score

    with pytest.raises(ValidationError) as caught:
        read_scores(scores_body(scores, campaigns=["a"] * 4), MOST)

    assert caught.value.field == f"scores[{place}]"
    assert caught.value.rule == "must be a number in [0, 1]"
    assert caught.value.value.lower().startswith(repr(score)[:3])


def test_every_bit_pattern_of_a_float_is_judged():
    """Also a NaN that signals: no warning, no way in."""
    for bits in (0x7FF0000000000001, 0xFFF8000000000000, 0x7FF4000000000000, 0x8000000000000001):
        sections = padded(struct.pack("<Q", bits))
        body = bodies.body(bodies.SCORES, 1, sections, campaigns=["a"])
        with pytest.raises(ValidationError, match=r"^scores\[0\]"):
            read_scores(body, MOST)
        halves = padded(struct.pack("<I", bits >> 32 | 1))
        short = bodies.body(bodies.SCORES, 1, halves, campaigns=["a"], flags=FLOAT32)
        with pytest.raises(ValidationError, match=r"^scores\[0\]"):
            read_scores(short, MOST)


def test_an_index_beyond_the_names_is_named():
    body = bytearray(scores_body([0.5, 0.5], campaigns=["a", "b"]))
    body[60] = 2

    with pytest.raises(ValidationError) as caught:
        read_scores(bytes(body), MOST)

    assert str(caught.value) == "campaigns[1] = 2: must be the index of one of the 2 names"


def test_campaigns_without_a_name_are_refused():
    with pytest.raises(ValidationError, match="one of the 0 names"):
        read_scores(
            scores_body([0.5], campaigns=["a"], announced={"names": 0, "names_bytes": 0})[:40]
            + bytes(16),
            9,
        )


@pytest.mark.parametrize(
    ("names", "field"), [([b"\xff"], "names[0]"), ([b"ok", b"\xc3", b"\xb6"], "names[1]")]
)
def test_a_name_that_is_not_utf8_is_named(names, field):
    """Also when only the text of all names is UTF-8."""
    text = b"".join(names)
    sections = bodies.numbers("I", list(map(len, names))) + padded(text)
    sections += bodies.numbers("I", [0]) + bodies.numbers("d", [0.5])
    body = bodies.body(
        bodies.SCORES, 1, sections, announced={"names": len(names), "names_bytes": len(text)}
    )
    # `body` adds an empty column of campaigns, which has no bytes.
    with pytest.raises(ValidationError, match="must be UTF-8") as caught:
        read_scores(body, MOST)

    assert caught.value.field == field


def test_a_target_that_is_not_utf8_is_refused():
    body = scores_body([0.5], campaigns=["a"]).replace(b"click", b"cl\xffck")

    with pytest.raises(ValidationError, match=r"^target: must be UTF-8"):
        read_scores(body, MOST)


ONE = {"campaigns": ["a"]}
WITH_ID = impressions_body([0.5], [1.0], ["a"], **ONE)
TWO_TO_32_BYTES = WITH_ID[:-16] + bodies.numbers("I", [2**32 - 1]) + padded(b"a")
NOT_UTF8 = impressions_body([0.5], [1.0], ["ö"], **ONE).replace("ö".encode(), b"\xff\0")
KINDS = r"must be 3 \(impressions\) or 4 \(clicks\) or 5 \(outcomes\)"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (impressions_body([], []), "^events: must be at least one"),
        (
            clicks_body([0.5], [1.0], [1.0], ["a"], **ONE, target="view"),
            '^target = "view": must be click for impressions and clicks',
        ),
        (impressions_body([0.5], [1.0], **ONE, target="view"), '^target = "view": must be click'),
        (
            bodies.body(bodies.CLICKS, 1, bytes(24), **ONE),
            "^columns.flags = 0: clicks need the flag 8",
        ),
        (
            outcomes_body([0.5], [1.0], [1.0], **ONE, flags=EVENT_IDS),
            "^columns.flags = 8: outcomes have only the flags 0xe6",
        ),
        (
            impressions_body([0.5], [1.0], **ONE, flags=FLOAT32),
            "^columns.flags = 1: impressions have only the flags 0xee",
        ),
        (scores_body([0.5], **ONE), f"^columns.kind = 1: {KINDS}"),
        (TWO_TO_32_BYTES, "^columns.ids: needs 4294967296 bytes"),
        (NOT_UTF8, r"^ids\[0\]: must be UTF-8"),
    ],
)
def test_events_that_cannot_be_are_refused(body, text):
    with pytest.raises(ValidationError, match=text):
        read_events(body, MOST)
