"""Numbers that stand for click ids: the same in every process, spread evenly over 64 bits."""

from hashlib import shake_256
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

HIGHEST = np.uint64(2**64 - 1)


def hash_ids(ids: Any, seed: int = 0) -> Hashes:
    """One number per id of a large_string column, (n,); another seed gives others.

    Multilinear hashing of the UTF-8 bytes, whose coefficients come from the seed, then the
    finalizer of splitmix64, so that ids that count upwards do not make an even comb.
    """
    chunks = [_hash_chunk(chunk, seed) for chunk in ids.chunks if len(chunk)]
    return np.concatenate([np.empty(0, np.uint64), *chunks])


def _hash_chunk(ids: Any, seed: int) -> Hashes:
    _, offsets, data = ids.buffers()
    bounds = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    longest = int(lengths.max())
    # The bytes behind the last id may be looked at, but count for nothing.
    text = np.concatenate([_bytes(data)[bounds[0] : bounds[-1]], np.zeros(longest, np.uint8)])
    length_coefficient, *coefficients = _coefficients(seed, longest + 1)
    # An id is not another one with zero bytes behind it: its length counts too.
    sums = lengths.astype(np.uint64) * length_coefficient
    for place, coefficient in enumerate(coefficients):
        sums += np.where(lengths > place, text[starts + place], 0) * coefficient
    return _mixed(sums)


def _bytes(buffer: Any) -> NDArray[np.uint8]:
    return np.frombuffer(buffer or b"", np.uint8)


def _coefficients(seed: int, count: int) -> Hashes:
    """The first so many, whatever their number: more of them begin with the same."""
    digest = shake_256(seed.to_bytes(8, "little", signed=True)).digest(8 * count)
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
