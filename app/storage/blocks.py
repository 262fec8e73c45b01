"""Packed blocks of events: what one request appends to one log.

Layout, little-endian: magic "SBLK", schema_version u2, length of the body u4, CRC-32 of the body
u4; then the body:

    campaigns m u4, rows n u4
    names of the m campaigns (`calibrators.names`)
    rows u4 (n), scores f8 (n), counts f8 (n), positives f8 (n)

Behind the body the store appends n marks u1 when some of the rows were there already: 1 marks a
duplicate, and `decode_block` leaves it out.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.storage.block_frame import framed, opened
from calibrators.names import pack_names, unpack_names

SCHEMA_VERSION = 1

LARGEST_WEIGHT = 1_000_000.0
"""What one event may count or add: a bin holds the sum of 9,000 such events."""

_MAGIC = b"SBLK"
SIZES = struct.Struct("<II")
# How `calibrators.columns` begins a column of numbers of one byte.
COLUMN_OF_BYTES, _LONGEST_OF_ONE_BYTE = b"\1\0", 255
NUMBER_BYTES, VALUE_BYTES = 4, 8
ROW_BYTES = NUMBER_BYTES + 3 * VALUE_BYTES
"""Bytes of one row in a block's columns."""

Floats = NDArray[np.float64]
Rows = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Events of one log as columns of shape (n,).

    rows[i] is the index into `campaigns` of event i; counts its weight (0 for a click that only
    adds a positive); positives what it adds to the positives.
    """

    campaigns: tuple[str, ...]
    rows: Rows
    scores: Floats
    counts: Floats
    positives: Floats

    def __len__(self) -> int:
        return len(self.rows)


class PackedRows(NamedTuple):
    """Events of one log on their way to it: the columns of a `Block` as bytes.

    A request has events for many logs, and cutting bytes is cheaper than cutting arrays.
    """

    campaigns: Sequence[str]
    rows: bytes
    scores: bytes
    counts: bytes
    positives: bytes


def encode_block(packed: PackedRows) -> bytes:
    """The block's bytes."""
    campaigns, rows, *columns = packed
    sizes = SIZES.pack(len(campaigns), len(rows) // NUMBER_BYTES)
    body = b"".join((sizes, _packed_names(campaigns), rows, *columns))
    return framed(_MAGIC, SCHEMA_VERSION, body)


def decode_block(data: bytes) -> Block:
    """The block that `encode_block` wrote, without the events that are marked as duplicates.

    Raises ValueError on bytes of another kind or version, and on any damage.
    """
    body, marks = opened_block(data)
    campaigns, length = SIZES.unpack_from(body)
    names, start = unpack_names(memoryview(body), SIZES.size, campaigns)
    if start + length * ROW_BYTES != len(body):
        raise ValueError(f"{length} rows of {ROW_BYTES} bytes do not fill the block")
    rows = np.frombuffer(body, "<u4", length, start)
    values = np.frombuffer(body, "<f8", 3 * length, start + 4 * length).reshape(3, length)
    check_rows(rows, campaigns)
    check_values(values)
    block = Block(names, rows, *values)
    return _without_duplicates(block, np.frombuffer(marks, np.uint8)) if marks else block


def opened_block(data: bytes) -> tuple[bytes, bytes]:
    """Body and marks of a block; ValueError on bytes of another kind or version, and on damage."""
    body, marks = opened(_MAGIC, SCHEMA_VERSION, data)
    if len(body) < SIZES.size:
        raise ValueError(f"the body of a block has at least {SIZES.size} bytes, not {len(body)}")
    return body, marks


def check_rows(rows: Rows, campaigns: int | NDArray[np.int64]) -> None:
    """Raises ValueError on a row that names a campaign beyond those of its block."""
    if (rows >= campaigns).any():
        raise ValueError(f"a row names a campaign beyond the block's {np.max(campaigns)}")


def check_values(values: Floats) -> None:
    """Raises ValueError on scores, counts and positives, (3, n), that no event can have."""
    # Folds read small blocks by the thousand: few passes, each of which NaN fails too.
    if not (values.min(initial=0.0) >= 0.0 and values[0].max(initial=0.0) <= 1.0):
        raise ValueError("a value of the block is negative, or a score above 1")
    if not values.max(initial=0.0) <= LARGEST_WEIGHT:
        raise ValueError(f"a count of the block is above {LARGEST_WEIGHT:.0f}")


def _packed_names(names: Sequence[str]) -> bytes:
    """`pack_names` of short names, without the arrays that cost more than some dozen names do."""
    encoded = [name.encode() for name in names]
    lengths = [len(name) for name in encoded]
    if max(lengths, default=0) > _LONGEST_OF_ONE_BYTE:
        return pack_names(names)
    return COLUMN_OF_BYTES + bytes(lengths) + b"".join(encoded)


def _without_duplicates(block: Block, marks: NDArray[np.uint8]) -> Block:
    if len(marks) != len(block) or (marks > 1).any():
        raise ValueError(f"a block of {len(block)} rows needs as many marks of 0 or 1, or none")
    kept = marks == 0
    return Block(
        block.campaigns,
        block.rows[kept],
        block.scores[kept],
        block.counts[kept],
        block.positives[kept],
    )
