"""The bytes of a block: the events, or the conversions, that one request appends to one log.

Little-endian: magic "SBLK" or "SCNV", schema_version u2, length of the body u4, CRC-32 of the body
u4 (which begins with that of its log, `TargetHour.checksum`), the body. Of n events of m campaigns
it holds

    campaigns m u4, rows n u4
    names of the m campaigns (`calibrators.bins.codecs`)
    rows u4 (n), scores f8 (n), counts f8 (n), positives f8 (n)
    from version 3 on: n terms, each arm u1, bucket i2, bid f8, cost f8, value f8
    in version 4 only: the fields (`calibrators.fields.columns`), their bytes u4, and whether there
    are terms u1

and of conversions, as MessagePack, an array of three arrays: click ids (strings), times (epoch
seconds, floats), values (floats, or nil where there is none). Behind the body the store appends n
marks u1 when some of the rows do not count: 1 marks a duplicate or what is refused, and decoding
leaves it out. Behind the marks stand the first 8 hexadecimal digits of the SHA-1, which Redis has
at hand, of the CRC-32 and the marks. Version 1 has no digest of marks, and a CRC-32 of the body
alone. Version 4 is written where an event has fields, 3 where one has terms, and 2 elsewhere.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibrators.arms import ARMS, BUCKETS
from calibrators.bins.codecs import numbered, pack_names, unpack_names
from calibrators.bins.table import BinsTable
from calibrators.fields.columns import (
    COLUMN_OF_BYTES,
    FieldColumns,
    PackedField,
    chosen,
    end_to_end,
    split_fields,
    unpack_fields,
)
from calibrators.fields.sums import FieldColumn
from calibrators.samples import Floats, Integers

_HEADER = struct.Struct("<4sHII")
_VERSION, _CHECKSUM = 4, slice(10, 14)
_MARKS_DIGITS = 8

SCHEMA_VERSION = 2
_WITH_TERMS, _WITH_FIELDS = 3, 4


def framed(magic: bytes, body: bytes, seed: int, version: int = SCHEMA_VERSION) -> bytes:
    """The body behind its header; the seed is the checksum of its log."""
    return _HEADER.pack(magic, version, len(body), crc32(body, seed)) + body


def opened(
    magic: bytes, data: bytes, seed: int, newest: int = SCHEMA_VERSION
) -> tuple[bytes, bytes]:
    """Body and marks; ValueError on bytes of another kind, version or log, and on any damage."""
    # Copies of the bytes, not views of them: the garbage collector walks over views, and folds hold
    # those of thousands of blocks.
    if len(data) < _HEADER.size:
        raise ValueError(f"a block has at least {_HEADER.size} bytes, not {len(data)}")
    found, schema_version, length, checksum = _HEADER.unpack_from(data)
    if found != magic:
        raise ValueError(f"this kind of block begins with {magic!r}, not {found!r}")
    if not 1 <= schema_version <= newest:
        raise ValueError(f"block schema_version {schema_version}: 1 to {newest} are known")
    end = _HEADER.size + length
    body = data[_HEADER.size : end]
    if len(body) != length or crc32(body, seed if schema_version > 1 else 0) != checksum:
        raise ValueError("the block is cut short or its checksum is wrong")
    marks = data[end:]
    return body, _checked(marks, data[_CHECKSUM]) if marks and schema_version > 1 else marks


def _checked(marks: bytes, checksum: bytes) -> bytes:
    """The marks without their digest."""
    marks, digest = marks[:-_MARKS_DIGITS], marks[-_MARKS_DIGITS:]
    found = sha1(checksum + marks, usedforsecurity=False).hexdigest()
    if found[:_MARKS_DIGITS].encode() != digest:
        raise ValueError("the digest of the block's marks is wrong")
    return marks


LARGEST_WEIGHT = 1_000_000.0
"""What one event may count or add: a bin holds the sum of 9,000 such events."""

_MAGIC = b"SBLK"
SIZES = struct.Struct("<II")
_TRAILER = struct.Struct("<IB")
_LONGEST_OF_ONE_BYTE = 255
NUMBER_BYTES, VALUE_BYTES = 4, 8
ROW_BYTES = NUMBER_BYTES + 3 * VALUE_BYTES
"""Bytes of one row in a block's columns, without its terms."""

Rows = NDArray[np.integer[Any]]


class Terms(NamedTuple):
    """Who saw an ad and what was paid for it: the number of the arm and the bucket of the unit, or
    these where there are none; bid, cost and value, 0 to LARGEST_WEIGHT each."""

    arm: int = 255
    bucket: int = -1
    bid: float = 0.0
    cost: float = 0.0
    value: float = 0.0


NO_TERMS: Final = Terms()
TERMS: Final = np.dtype(
    [("arm", "u1"), ("bucket", "<i2"), ("bid", "<f8"), ("cost", "<f8"), ("value", "<f8")]
)
MONEY: Final = ("bid", "cost", "value")

TermColumns = NDArray[np.void]
"""The terms of n events, (n,), of the type TERMS."""


def packed_terms(length: int, given: Mapping[int, Terms]) -> bytes:
    """The terms of `length` events, by their place; nothing where none are given."""
    if not given:
        return b""
    return np.array([given.get(place, NO_TERMS) for place in range(length)], TERMS).tobytes()


def joined_terms(*parts: tuple[int, bytes]) -> bytes:
    """The packed terms of so many events each, one behind the other; nothing of all none."""
    if not any(packed for _, packed in parts):
        return b""
    return b"".join(packed or _NONE * length for length, packed in parts)


def without_none(terms: bytes) -> bytes:
    """Packed terms; nothing where no event has any."""
    return b"" if terms == _NONE * (len(terms) // len(_NONE)) else terms


_NONE: Final = packed_terms(1, {0: NO_TERMS})


def check_terms(terms: TermColumns) -> None:
    """Raises ValueError on terms that no event can have."""
    arms, buckets = terms["arm"], terms["bucket"]
    if not ((arms < len(ARMS)) | (arms == NO_TERMS.arm)).all():
        raise ValueError(f"the arms are 0 to {len(ARMS) - 1}, and {NO_TERMS.arm} for none")
    if not (buckets.min(initial=0) >= NO_TERMS.bucket and buckets.max(initial=0) < BUCKETS):
        raise ValueError(f"the buckets are 0 to {BUCKETS - 1}, and {NO_TERMS.bucket} for none")
    for name in MONEY:
        # A comparison with NaN is false: it must not be what lets a value pass.
        least, most = terms[name].min(initial=0.0), terms[name].max(initial=0.0)
        if not (least >= 0.0 and most <= LARGEST_WEIGHT):
            raise ValueError(f"a {name} must be in [0, {LARGEST_WEIGHT:.0f}]")


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
    terms: TermColumns | None = None
    fields: FieldColumns | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, kept: NDArray[np.bool_]) -> "Block":
        """The events that are marked, (n,)."""
        return Block(
            self.campaigns,
            self.rows[kept],
            self.scores[kept],
            self.counts[kept],
            self.positives[kept],
            None if self.terms is None else self.terms[kept],
            None if self.fields is None else chosen(self.fields, kept),
        )

    def table(self) -> BinsTable:
        """Their bins."""
        if not len(self):
            return BinsTable.empty()
        rows = self.rows.astype(np.int64, copy=False)
        values = (self.scores, self.counts, self.positives)
        return BinsTable.from_columns(self.campaigns, rows, *values)


def together(blocks: Sequence[Block]) -> Block:
    """One or more blocks, one behind the other; with terms if all have them, with fields if any
    has."""
    starts = np.cumsum([0, *(len(block.campaigns) for block in blocks[:-1])])
    terms = [block.terms for block in blocks if block.terms is not None]
    fields = [(len(block), block.fields or {}) for block in blocks]
    return Block(
        tuple(campaign for block in blocks for campaign in block.campaigns),
        np.concatenate([block.rows + start for block, start in zip(blocks, starts, strict=True)]),
        np.concatenate([block.scores for block in blocks]),
        np.concatenate([block.counts for block in blocks]),
        np.concatenate([block.positives for block in blocks]),
        np.concatenate(terms) if len(terms) == len(blocks) else None,
        end_to_end(fields) if any(columns for _, columns in fields) else None,
    )


class PackedRows(NamedTuple):
    """Events of one log on their way to it: the columns of a `Block` as bytes, no terms and no
    fields as none.

    A request has events for many logs, and cutting bytes is cheaper than cutting arrays.
    """

    campaigns: Sequence[str]
    rows: bytes
    scores: bytes
    counts: bytes
    positives: bytes
    terms: bytes = b""
    fields: bytes = b""


def encode_block(packed: PackedRows, seed: int = 0) -> bytes:
    """The block's bytes; the seed is the checksum of its log."""
    campaigns, rows, *columns = packed
    sizes = SIZES.pack(len(campaigns), len(rows) // NUMBER_BYTES)
    body = b"".join((sizes, pack_short_names(campaigns), rows, *columns))
    version = _WITH_TERMS if packed.terms else SCHEMA_VERSION
    if packed.fields:
        body += _TRAILER.pack(len(packed.fields), bool(packed.terms))
        version = _WITH_FIELDS
    return framed(_MAGIC, body, seed, version)


def decode_block(data: bytes, seed: int = 0) -> Block:
    """The block that `encode_block` wrote, without the events that are marked as duplicates.

    Raises ValueError on bytes of another kind or version, and on any damage.
    """
    body, marks, row_bytes, packed = opened_block(data, seed)
    campaigns, length = SIZES.unpack_from(body)
    names, start = unpack_names(memoryview(body), SIZES.size, campaigns)
    if start + length * row_bytes != len(body):
        raise ValueError(f"{length} rows of {row_bytes} bytes do not fill the block")
    rows = np.frombuffer(body, "<u4", length, start)
    values = np.frombuffer(body, "<f8", 3 * length, start + 4 * length).reshape(3, length)
    terms = _terms(body[start + length * ROW_BYTES :]) if row_bytes > ROW_BYTES else None
    check_rows(rows, campaigns)
    check_values(values)
    scores, counts, positives = values
    fields = unpack_fields(packed, length) if packed else None
    block = Block(names, rows, scores, counts, positives, terms, fields)
    if not marks:
        return block
    marked = np.frombuffer(marks, np.uint8)
    if len(marked) != length or (marked > 1).any():
        raise ValueError(f"a block of {length} rows needs as many marks of 0 or 1, or none")
    return block.chosen(marked == 0)


def opened_block(data: bytes, seed: int) -> tuple[bytes, bytes, int, bytes]:
    """Body without fields, and marks of a block, the bytes of a row, and those of the fields;
    ValueError on bytes of another kind or version, and on damage."""
    body, marks = opened(_MAGIC, data, seed, _WITH_FIELDS)
    if len(body) < SIZES.size:
        raise ValueError(f"the body of a block has at least {SIZES.size} bytes, not {len(body)}")
    has_terms, fields = data[_VERSION] == _WITH_TERMS, b""
    if data[_VERSION] == _WITH_FIELDS:
        body, fields, has_terms = _without_fields(body)
    return body, marks, ROW_BYTES + (TERMS.itemsize if has_terms else 0), fields


def _without_fields(body: bytes) -> tuple[bytes, bytes, bool]:
    end = len(body) - _TRAILER.size
    size, has_terms = _TRAILER.unpack_from(body, end) if end >= SIZES.size else (end + 1, 0)
    if size > end - SIZES.size or has_terms > 1:
        raise ValueError(f"fields of {size} bytes do not fit into a block of {len(body)}")
    return body[: end - size], body[end - size : end], bool(has_terms)


def _terms(data: bytes) -> TermColumns:
    terms: TermColumns = np.frombuffer(data, TERMS)
    check_terms(terms)
    return terms


def check_rows(rows: Rows, names: int | Integers) -> None:
    """Raises ValueError on a row that points beyond the names of its block."""
    if (rows >= names).any():
        raise ValueError(f"a row points beyond the block's {np.max(names)} names")


def check_values(values: Floats) -> None:
    """Raises ValueError on scores, counts and positives, (3, n), that no event can have."""
    # Folds read small blocks by the thousand: few passes, each of which NaN fails too.
    if not (values.min(initial=0.0) >= 0.0 and values[0].max(initial=0.0) <= 1.0):
        raise ValueError("a value of the block is negative, or a score above 1")
    if not values.max(initial=0.0) <= LARGEST_WEIGHT:
        raise ValueError(f"a count of the block is above {LARGEST_WEIGHT:.0f}")


def pack_short_names(names: Sequence[str]) -> bytes:
    """`pack_names` of short names, without the arrays that cost more than some dozen names do."""
    encoded = [name.encode() for name in names]
    lengths = [len(name) for name in encoded]
    if max(lengths, default=0) > _LONGEST_OF_ONE_BYTE:
        return pack_names(names)
    return COLUMN_OF_BYTES + bytes(lengths) + b"".join(encoded)


_CONVERSION_MAGIC = b"SCNV"
_BODY = msgspec.msgpack.Decoder(tuple[list[str], list[float], list[float | None]])


@dataclass(frozen=True, slots=True)
class StoredConversion:
    """A click converted at that time, epoch seconds; `value` is None where none was sent."""

    click_id: str
    target: str
    occurred_at: float
    value: float | None = None


def encode_conversions(conversions: Sequence[StoredConversion], seed: int = 0) -> bytes:
    """The block's bytes; all conversions are of the target that its log is named by."""
    columns = (
        [conversion.click_id for conversion in conversions],
        [conversion.occurred_at for conversion in conversions],
        [conversion.value for conversion in conversions],
    )
    body = msgspec.msgpack.encode(columns)
    return framed(_CONVERSION_MAGIC, body, seed)


def decode_conversions(data: bytes, target: str, seed: int = 0) -> list[StoredConversion]:
    """The conversions that `encode_conversions` wrote, without those that are marked.

    Raises ValueError on bytes of another kind or version, and on any damage.
    """
    body, marks = opened(_CONVERSION_MAGIC, data, seed)
    try:
        ids, times, values = _BODY.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the body of the block is unreadable: {error}") from None
    if not len(ids) == len(times) == len(values) or len(marks) not in (0, len(ids)):
        raise ValueError("the columns of the block are of different lengths")
    rows = zip(ids, times, values, bytes(marks) or bytes(len(ids)), strict=True)
    return [StoredConversion(i, target, at, value) for i, at, value, mark in rows if not mark]


_LENGTHS = SIZES.size + len(COLUMN_OF_BYTES)


def decode_blocks(blocks: Sequence[bytes], seed: int = 0) -> list[Block]:
    """What `decode_block` says of each, as few blocks: those without duplicates and without long
    names are put together, one behind the other, and their campaigns are named once; those with
    terms apart from those without.

    Raises ValueError when any of them is damaged; which, `decode_block` tells.
    """
    runs: dict[tuple[int, tuple[str, ...]], _Run] = {}
    others = []
    for data in blocks:
        body, marks, row_bytes, packed = opened_block(data, seed)
        fields = split_fields(packed, SIZES.unpack_from(body)[1]) if packed else ()
        is_plain = body[SIZES.size : _LENGTHS] == COLUMN_OF_BYTES
        if marks or not is_plain or not all(field_.is_plain for field_ in fields):
            others.append(decode_block(data, seed))
        else:
            names = tuple(field_.name for field_ in fields)
            runs.setdefault((row_bytes, names), _Run(row_bytes)).add(body, fields)
    return [*(run.block() for run in runs.values()), *others]


@dataclass(slots=True)
class NamedColumn:
    """A column of many blocks, whose rows are places among names of their own block: lengths of
    these u1, their text, the rows of so many bytes."""

    width: int
    lengths: list[bytes] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    rows: list[bytes] = field(default_factory=list)

    def add(self, lengths: bytes, text: bytes, rows: bytes) -> None:
        """The next block's."""
        self.lengths.append(lengths)
        self.texts.append(text)
        self.rows.append(rows)

    def add_field(self, packed: PackedField) -> None:
        """The next block's, which is plain."""
        start = len(COLUMN_OF_BYTES)
        values = packed.values
        self.add(
            values[start : start + packed.number], values[start + packed.number :], packed.codes
        )

    def joined(self) -> tuple[tuple[str, ...], Integers]:
        """The names of all blocks, each once, and the rows, (n,), as places among them."""
        counts = np.array([len(each) for each in self.lengths])
        sizes = [len(each) // self.width for each in self.rows]
        of_block = np.repeat(np.arange(len(counts)), sizes)
        rows = np.frombuffer(b"".join(self.rows), f"<u{self.width}")
        check_rows(rows, counts[of_block])
        names, numbers = numbered(self._lengths(counts), b"".join(self.texts))
        firsts = np.cumsum(counts) - counts
        return names, numbers[rows + firsts[of_block]]

    def _lengths(self, counts: Integers) -> Integers:
        """Those of all names; ValueError where they do not fill the text of their block."""
        lengths = np.frombuffer(b"".join(self.lengths), np.uint8).astype(np.int64)
        reached = np.append(0, np.cumsum(lengths))[np.cumsum(counts)]
        if not np.array_equal(reached, np.cumsum([len(text) for text in self.texts])):
            raise ValueError("the names of a block do not fill their place in it")
        return lengths


@dataclass(slots=True)
class _Run:
    """The parts of each block's body, whose rows have so many bytes."""

    row_bytes: int
    rows: NamedColumn = field(default_factory=lambda: NamedColumn(NUMBER_BYTES))
    scores: list[bytes] = field(default_factory=list)
    counts: list[bytes] = field(default_factory=list)
    positives: list[bytes] = field(default_factory=list)
    terms: list[bytes] = field(default_factory=list)
    fields: dict[str, NamedColumn] = field(default_factory=dict)

    def add(self, body: bytes, fields: Sequence[PackedField] = ()) -> None:
        campaigns, rows = SIZES.unpack_from(body)
        text, first = _LENGTHS + campaigns, len(body) - rows * self.row_bytes
        if text > first:
            raise ValueError(
                f"names and {rows} rows of {self.row_bytes} bytes do not fill the block"
            )
        scores = first + rows * NUMBER_BYTES
        counts = scores + rows * VALUE_BYTES
        positives = counts + rows * VALUE_BYTES
        terms = positives + rows * VALUE_BYTES
        self.rows.add(body[_LENGTHS:text], body[text:first], body[first:scores])
        self.scores.append(body[scores:counts])
        self.counts.append(body[counts:positives])
        self.positives.append(body[positives:terms])
        self.terms.append(body[terms:])
        for one in fields:
            self.fields.setdefault(one.name, NamedColumn(one.width)).add_field(one)

    def block(self) -> Block:
        names, rows = self.rows.joined()
        columns = b"".join((*self.scores, *self.counts, *self.positives))
        values = np.frombuffer(columns, "<f8").reshape(3, len(rows))
        check_values(values)
        terms = _terms(b"".join(self.terms)) if self.row_bytes > ROW_BYTES else None
        fields = {name: FieldColumn(*run.joined()) for name, run in self.fields.items()}
        scores, counts, positives = values
        of_names = rows.astype(np.uint32)
        return Block(names, of_names, scores, counts, positives, terms, fields or None)
