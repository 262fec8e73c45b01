"""Blocks of conversions: round trips, and damage that must be seen."""

import struct
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.blocks import (
    SCHEMA_VERSION,
    StoredConversion,
    decode_conversions,
    encode_conversions,
)
from tests.storage.packing import marked

numbers = st.floats(allow_nan=False)
conversions = st.lists(
    st.builds(
        StoredConversion,
        st.text(st.characters(exclude_categories=["Cs"])),
        st.just("conversion"),
        numbers,
        st.none() | numbers,
    )
)

TWO = [
    StoredConversion("1", "conversion", 5.5, None),
    StoredConversion("é", "conversion", 6.0, 12.5),
]


def block_of(body: bytes, magic: bytes = b"SCNV", version: int = SCHEMA_VERSION) -> bytes:
    return struct.pack("<4sHII", magic, version, len(body), crc32(body)) + body


@given(conversions)
def test_what_is_encoded_is_decoded(held):
    assert decode_conversions(encode_conversions(held), "conversion") == held


@given(conversions, st.data())
def test_marked_conversions_are_left_out(held, data):
    marks = data.draw(st.lists(st.sampled_from([0, 1]), min_size=len(held), max_size=len(held)))

    decoded = decode_conversions(marked(encode_conversions(held), bytes(marks)), "conversion")

    assert decoded == [one for one, mark in zip(held, marks, strict=True) if not mark]


def test_the_target_is_that_of_the_log():
    assert {one.target for one in decode_conversions(encode_conversions(TWO), "install")} == {
        "install"
    }


def test_every_flipped_byte_is_seen():
    whole = encode_conversions(TWO)
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 0x55

        with pytest.raises(ValueError, match="block"):
            decode_conversions(bytes(data), "conversion")


def test_a_block_that_is_cut_short_is_refused():
    whole = encode_conversions(TWO)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="block"):
            decode_conversions(whole[:length], "conversion")


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"SCNV", "at least 14 bytes, not 4"),
        (block_of(b"", magic=b"SBLK"), "begins with b'SCNV', not b'SBLK'"),
        (block_of(b"", version=3), "schema_version 3: 1 to 2 are known"),
        (block_of(b"\xc1"), "unreadable"),
        (block_of(msgspec.msgpack.encode([["1"], [5.0]])), "unreadable"),
        (block_of(msgspec.msgpack.encode([["1"], ["noon"], [None]])), "unreadable"),
        (block_of(msgspec.msgpack.encode([["1"], [5.0], []])), "different lengths"),
        (block_of(msgspec.msgpack.encode([["1"], [5.0, 6.0], [None]])), "different lengths"),
        (marked(encode_conversions(TWO), b"\0"), "different lengths"),
        (marked(encode_conversions(TWO), b"\0\0\0"), "different lengths"),
    ],
)
def test_what_is_wrong_is_said(data, rule):
    with pytest.raises(ValueError, match=rule):
        decode_conversions(data, "conversion")
