"""The binary layout, against a decoder written down literally."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sirocco_client.errors import BadAnswer
from sirocco_client.requests import CalibrateInput, pack_input, unpack_response

scores = st.lists(st.floats(0, 1), min_size=1, max_size=40)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LEVELS = ("identity", "target", "campaign", "group")


def read(body: bytes) -> dict[str, Any]:
    """What a request says, read field by field."""
    magic, version, kind, flags, n, m, text, target, dictionary = struct.unpack(
        "<4sHBBIIIIQ", body[:32]
    )
    place = 32

    def section(size: int) -> bytes:
        nonlocal place
        content, padding = body[place : place + size], -size % 8
        assert body[place + size : place + size + padding] == bytes(padding)
        place += size + padding
        return content

    said_target = section(target).decode()
    lengths = struct.unpack(f"<{m}I", section(4 * m))
    joined = section(text)
    ends = np.cumsum([0, *lengths])
    campaigns = 1 if flags & 4 else n
    places = struct.unpack(f"<{campaigns}I", section(4 * campaigns))
    values = struct.unpack(f"<{n}d", section(8 * n))
    assert place == len(body)
    found = [joined[ends[i] : ends[i + 1]].decode() for i in range(m)]
    return {
        "frame": (magic, version, kind, dictionary),
        "flags": flags,
        "target": said_target,
        "campaigns": [found[i] for i in places],
        "scores": values,
        "names": found,
    }


@given(st.data(), scores, st.booleans(), st.sampled_from(["click", "ö", "x" * 64]))
def test_a_question_is_laid_out_as_documented(data, column, levels, target):
    """One name per score; each distinct name travels once."""
    campaigns = data.draw(st.lists(names, min_size=len(column), max_size=len(column)))

    said = read(pack_input(CalibrateInput.of(target, campaigns, column), levels))

    assert said["frame"] == (b"SCOL", 1, 1, 0)
    assert said["flags"] == 16 * levels
    assert (said["target"], said["campaigns"]) == (target, campaigns)
    assert said["scores"] == tuple(column)
    assert len(said["names"]) == len(set(campaigns))


@given(scores, names)
def test_one_campaign_travels_once(column, campaign):
    """With its flag, and one entry in its column."""
    said = read(pack_input(CalibrateInput.of("click", campaign, column), levels=False))

    assert said["flags"] == 4
    assert (said["campaigns"], said["scores"]) == ([campaign], tuple(column))


def answer(values: list[float], levels: list[int] | None, flags: int = 0, kind: int = 2) -> bytes:
    """An answer as the service lays it out."""
    flags |= 0 if levels is None else 16
    head = struct.pack("<4sHBBIIIIQ", b"SCOL", 1, kind, flags, len(values), 0, 0, 0, 7)
    told = bytes(levels or [])
    return head + struct.pack(f"<{len(values)}d", *values) + told + bytes(-len(told) % 8)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=40))
def test_an_answer_is_read_to_the_last_bit(rows):
    """With levels and without."""
    values, codes = [row[0] for row in rows], [row[1] for row in rows]

    plain, none, *_ = unpack_response(answer(values, None), len(rows))
    explained, levels, *_ = unpack_response(answer(values, codes), len(rows))

    assert plain.tolist() == explained.tolist() == values
    assert none is None
    assert levels == tuple(LEVELS[code] for code in codes)


@given(st.integers(0, 71), st.integers(0, 255), st.integers(0, 71))
def test_damaged_answers_are_refused_or_read_whole(place, byte, end):
    """Never another error than BadAnswer, whatever the bytes."""
    body = bytearray(answer([0.25, 0.5, 0.75, 1.0], [0, 1, 2, 2]))
    body[place] = byte
    for damaged in (bytes(body), bytes(body[:end])):
        try:
            values, *_ = unpack_response(damaged, 4)
        except BadAnswer:
            continue
        assert len(values) == 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        answer([0.5], None)[:-1],
        answer([0.5], None) + b"\0",
        answer([0.5, 0.5], None),
        answer([0.5], None, flags=1),
        answer([0.5], None, kind=1),
        answer([0.5], [5]),
        b"SCOM" + answer([0.5], None)[4:],
    ],
)
def test_what_is_no_answer_to_one_score_is_refused(body):
    """Cut short, too long, of other rows, of other numbers, or with an unknown level."""
    with pytest.raises(BadAnswer):
        unpack_response(body, 1)
