"""The packed blocks: what was written is read, and nothing else is."""

import struct
from math import inf, nan
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.blocks import LARGEST_WEIGHT, SCHEMA_VERSION, Block, decode_block
from calibrators.bins.codecs import pack_names
from tests.storage.packing import encoded, marked

HEADER = struct.Struct("<4sHII")


def block(
    campaigns: tuple[str, ...] = ("a", "b"),
    rows: tuple[int, ...] = (0, 1, 0),
    scores: tuple[float, ...] = (0.0, 0.5, 1.0),
    counts: tuple[float, ...] = (1.0, 0.0, 2.5),
    positives: tuple[float, ...] = (0.0, 1.0, 0.25),
) -> Block:
    columns = (np.array(column, float) for column in (scores, counts, positives))
    return Block(campaigns, np.array(rows, np.uint32), *columns)


def sealed(body: bytes, magic: bytes = b"SBLK", version: int = SCHEMA_VERSION) -> bytes:
    """The body behind a header that is right for it."""
    return HEADER.pack(magic, version, len(body), crc32(body)) + body


def columns(read: Block) -> tuple[list[float], ...]:
    return tuple(
        column.tolist() for column in (read.rows, read.scores, read.counts, read.positives)
    )


weights = st.floats(0, LARGEST_WEIGHT)


@given(
    st.lists(st.text(max_size=5), min_size=1, max_size=4).flatmap(
        lambda names: st.tuples(
            st.just(tuple(names)),
            st.lists(
                st.tuples(st.integers(0, len(names) - 1), st.floats(0, 1), weights, weights),
                max_size=20,
            ),
        )
    )
)
def test_a_block_is_read_as_it_was_written(drawn):
    campaigns, events = drawn
    written = block(campaigns, *(zip(*events, strict=True) if events else ((), (), (), ())))

    read = decode_block(encoded(written))

    assert read.campaigns == campaigns
    assert len(read) == len(events)
    assert columns(read) == columns(written)


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_rows_that_are_marked_as_duplicates_are_left_out(marks):
    size = len(marks)
    scores = tuple(np.linspace(0, 1, size))
    data = encoded(block(("a",), (0,) * size, scores, (1.0,) * size, (0.0,) * size))

    read = decode_block(marked(data, bytes(marks)))

    kept = [score for score, mark in zip(scores, marks, strict=True) if not mark]
    assert read.scores.tolist() == kept
    assert len(read) == len(kept)


def test_the_layout_is_the_documented_one():
    """Blocks outlive the process that wrote them: a new layout needs a new schema_version."""
    body = struct.pack("<II", 1, 2) + pack_names(["é"]) + struct.pack("<2I6d", 0, 0, *[0.5] * 6)
    half = (0.5, 0.5)

    assert encoded(block(("é",), (0, 0), half, half, half)) == sealed(body)


def test_a_block_that_is_cut_short_anywhere_is_refused():
    data = encoded(block())
    for length in range(len(data)):
        with pytest.raises(ValueError, match="block"):
            decode_block(data[:length])


def test_any_changed_byte_is_noticed():
    data = bytearray(encoded(block()))
    for place in range(len(data)):
        for flipped in (0x01, 0x80, 0xFF):
            data[place] ^= flipped
            with pytest.raises(ValueError, match="block"):
                decode_block(bytes(data))
            data[place] ^= flipped


def test_a_flipped_mark_and_a_block_of_another_log_are_noticed():
    data = bytearray(marked(encoded(block(), 7), b"\0\1\0"))
    assert len(decode_block(bytes(data), 7)) == 2
    with pytest.raises(ValueError, match="its checksum is wrong"):
        decode_block(bytes(data), 8)

    for place in range(len(data) - 11, len(data)):
        data[place] ^= 1
        with pytest.raises(ValueError, match="the digest of the block's marks is wrong"):
            decode_block(bytes(data), 7)
        data[place] ^= 1


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"SBLK", "at least 14 bytes, not 4"),
        (sealed(b"", magic=b"JUNK"), "begins with b'SBLK', not b'JUNK'"),
        (sealed(b"", version=5), "schema_version 5: 1 to 4 are known"),
        (encoded(block())[:-1], "cut short"),
        (sealed(b"1234567"), "at least 8 bytes, not 7"),
        (sealed(struct.pack("<II", 0, 1) + pack_names([])), "1 rows of 28 bytes do not fill"),
        (sealed(struct.pack("<II", 0, 0) + pack_names([]) + b"more"), "do not fill"),
        (sealed(struct.pack("<II", 2**32 - 1, 0)), "names at byte|column at byte"),
        (encoded(block(rows=(0, 2, 0))), "beyond the block's 2"),
        (encoded(block(scores=(0.0, 1.5, 0.0))), "a score above 1"),
        (encoded(block(scores=(0.0, nan, 0.0))), "negative, or a score above 1"),
        (encoded(block(counts=(0.0, -1.0, 0.0))), "negative"),
        (encoded(block(counts=(0.0, nan, 0.0))), "negative"),
        (encoded(block(counts=(0.0, 2e6, 0.0))), "above 1000000"),
        (encoded(block(positives=(0.0, inf, 0.0))), "above 1000000"),
        (encoded(block(positives=(0.0, nan, 0.0))), "negative"),
        (marked(encoded(block()), b"\0\1"), "3 rows needs as many marks"),
        (marked(encoded(block()), b"\0\1\2"), "marks of 0 or 1"),
        (marked(encoded(block()), b"\0\1\0\0"), "3 rows needs as many marks"),
    ],
)
def test_what_no_writer_would_write_is_refused_with_its_rule(data, rule):
    """A right checksum is not enough: a fold must never add what it cannot trust."""
    with pytest.raises(ValueError, match=rule):
        decode_block(data)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused_never_a_crash(body):
    for data in (body, sealed(body)):
        try:
            decode_block(data)
        except ValueError:
            continue
