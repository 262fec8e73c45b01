"""Hashes of click ids, against the definition in plain integers."""

from hashlib import shake_256

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from app.click_log.rows import hash_ids

WORD = 2**64


def ids_of(names: list[str], pieces: int = 1) -> pa.ChunkedArray:
    size = -(-len(names) // pieces) or 1
    chunks = [names[start : start + size] for start in range(0, len(names), size)]
    return pa.chunked_array(chunks, pa.large_string())


def oracle(name: str, seed: int) -> int:
    text = name.encode()
    digest = shake_256(seed.to_bytes(8, "little", signed=True)).digest(8 * (len(text) + 1))
    first, *others = (
        int.from_bytes(digest[8 * k : 8 * k + 8], "little") for k in range(len(text) + 1)
    )
    value = first * len(text) + sum(c * byte for c, byte in zip(others, text, strict=True))
    value %= WORD
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ value >> 27) * 0x94D049BB133111EB % WORD
    return value ^ value >> 31


@given(
    st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=20), max_size=12),
    st.integers(1, 4),
    st.integers(-(2**63), 2**63 - 1),
)
def test_hashes_are_those_of_the_definition(names, pieces, seed):
    expected = [oracle(name, seed) for name in names]

    assert hash_ids(ids_of(names, pieces), seed).tolist() == expected


def test_a_slice_has_the_hashes_of_its_rows():
    ids = ids_of([f"click-{number}" for number in range(50)])

    np.testing.assert_array_equal(hash_ids(ids[7:20]), hash_ids(ids)[7:20])


def test_zero_bytes_behind_an_id_make_another_id():
    assert len(set(hash_ids(ids_of(["a", "a\0", "a\0\0", ""])).tolist())) == 4
