"""Many blocks read in one go: the same events as one block after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.blocks import Block, decode_block, decode_blocks, framed
from tests.storage.packing import encoded, marked

Event = tuple[str, float, float, float]
NAMES = st.sampled_from(["a", "b", "spring sale", "été", "广告", ""])
EVENTS = st.lists(
    st.tuples(NAMES, st.floats(0, 1), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=6
)


def block(events: list[Event], marks: list[bool] | None = None) -> bytes:
    names = sorted({name for name, *_ in events})
    rows = np.array([names.index(name) for name, *_ in events], np.uint32)
    columns = np.array([columns for _, *columns in events], float).reshape(-1, 3).T
    return marked(encoded(Block(tuple(names), rows, *columns)), bytes(marks or []))


def events_of(blocks: list[Block]) -> list[Event]:
    return [
        (read.campaigns[row], *columns)
        for read in blocks
        for row, *columns in zip(
            *(c.tolist() for c in (read.rows, read.scores, read.counts, read.positives)),
            strict=True,
        )
    ]


@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=6))
def test_blocks_hold_the_same_events_together_as_one_by_one(drawn):
    """Those with duplicates come last."""
    packed = [block(events, [True] * len(events) * marked) for events, marked in drawn]

    found = decode_blocks(packed)

    assert sorted(events_of(found)) == sorted(events_of([decode_block(data) for data in packed]))


def test_blocks_without_duplicates_become_one_that_names_each_campaign_once():
    packed = [block([("a", 0.5, 1.0, 0.0), ("b", 0.5, 1.0, 0.0)])] * 3

    (found,) = decode_blocks(packed)

    assert found.campaigns == ("a", "b")
    assert found.rows.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_block_with_a_name_of_more_than_255_bytes_stands_apart():
    """The lengths of its names take more than a byte each."""
    packed = [block([("a" * length, 0.5, 1.0, 0.0)]) for length in (255, 256, 3)]

    found = decode_blocks(packed)

    assert [read.campaigns for read in found] == [("a" * 255, "aaa"), ("a" * 256,)]


@pytest.mark.parametrize("lengths", [b"\x00", b"\x02", b"\xff"])
def test_names_that_do_not_fill_their_place_are_refused_among_many_blocks(lengths):
    """They must not take letters of the next block, whatever the checksum says."""
    with pytest.raises(ValueError, match="do not fill"):
        decode_blocks([with_lengths(lengths), WHOLE])


def test_more_rows_than_a_block_has_room_for_are_refused_among_many_blocks():
    with pytest.raises(ValueError, match="do not fill the block"):
        decode_blocks([with_lengths(b"\x01", rows=2), WHOLE])


def with_lengths(lengths: bytes, rows: int = 1) -> bytes:
    """A block of one row, its campaign named "a", that says these lengths and rows."""
    values = np.array([0.5, 1.0, 0.0]).tobytes()
    sizes = np.array([1, rows], "<u4").tobytes()
    return framed(b"SBLK", sizes + b"\1\0" + lengths + b"a" + bytes(4) + values, 0)


def test_nothing_is_no_block():
    assert decode_blocks([]) == []


WHOLE = block([("a", 0.25, 1.0, 0.0), ("b", 0.5, 2.0, 1.0)])


def test_one_damaged_byte_among_many_blocks_is_refused():
    for place in range(len(WHOLE)):
        damaged = bytearray(WHOLE)
        damaged[place] ^= 0x41

        with pytest.raises(ValueError, match=r"."):
            decode_blocks([WHOLE, bytes(damaged), WHOLE])


@pytest.mark.parametrize(
    "wrong",
    [
        Block(("a",), np.array([1], np.uint32), np.ones(1), np.ones(1), np.ones(1)),
        Block(("a",), np.zeros(1, np.uint32), np.full(1, 1.5), np.ones(1), np.ones(1)),
        Block(("a",), np.zeros(1, np.uint32), np.ones(1), np.full(1, np.nan), np.ones(1)),
        Block(("a",), np.zeros(1, np.uint32), np.ones(1), np.ones(1), np.full(1, 1e7)),
    ],
)
def test_what_no_writer_would_write_is_refused_among_many_blocks(wrong):
    """A row of one block must not reach a campaign of the next."""
    with pytest.raises(ValueError, match=r"of the block|the block's"):
        decode_blocks([encoded(wrong), WHOLE])
