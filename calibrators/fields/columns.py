"""Fields of events as columns: which of them are chosen, one behind the other, and their bytes.

The bytes are, little-endian, the number of fields u1, and of each

    bytes of its name u1, bytes of a code u1 (2 or 4), values v u4, bytes of their names u4
    its name, UTF-8
    names of the v values (`calibrators.bins.codecs`); "" stands for other: nothing was said
    codes u2 or u4 (n): the value of each event, as its place among these
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.codecs import numbered, unpack_names
from calibrators.fields.sums import FieldColumn
from calibrators.samples import Integers

LONGEST_VALUE: Final = 256
"""Bytes of a value."""

FieldColumns = Mapping[str, FieldColumn]
"""By name; of a field that is not there every event's value is other."""


def chosen(columns: FieldColumns, kept: NDArray[Any] | slice) -> dict[str, FieldColumn]:
    """The columns of the events that a mask or an array of places chooses."""
    return {name: FieldColumn(names, codes[kept]) for name, (names, codes) in columns.items()}


def end_to_end(parts: Sequence[tuple[int, FieldColumns]]) -> dict[str, FieldColumn]:
    """The columns of so many events each, one part behind the other."""
    names = sorted(set().union(*(columns for _, columns in parts)))
    return {name: _joined([_of(columns, name, n) for n, columns in parts]) for name in names}


def _of(columns: FieldColumns, name: str, length: int) -> FieldColumn:
    return columns[name] if name in columns else FieldColumn.missing(length)


def _joined(parts: Sequence[FieldColumn]) -> FieldColumn:
    places: dict[str, int] = {}
    for part in parts:
        for value in part.names:
            places.setdefault(value, len(places))
    rows = [np.array([places[value] for value in part.names], np.int64) for part in parts]
    pairs = zip(parts, rows, strict=True)
    return FieldColumn(tuple(places), np.concatenate([row[part.codes] for part, row in pairs]))


def said(columns: FieldColumns, length: int) -> list[dict[str, str]]:
    """What each of so many events says, by field; nothing of what is other."""
    found: list[dict[str, str]] = [{} for _ in range(length)]
    for name, (names, codes) in columns.items():
        for event, code in zip(found, codes.tolist(), strict=True):
            if names[code]:
                event[name] = names[code]
    return found


# How `pack_names` begins a column of numbers of one byte.
COLUMN_OF_BYTES: Final = b"\1\0"
FIELD_HEAD: Final = struct.Struct("<BBII")
NARROW, WIDE = 2, 4


def code_type(width: int) -> str:
    """Of codes of so many bytes."""
    return f"<u{width}"


class PackedField(NamedTuple):
    """One field of a block as its bytes stand there."""

    name: str
    width: int
    number: int
    values: bytes
    codes: bytes

    @property
    def is_plain(self) -> bool:
        """Whether a `NamedColumn` takes it: short values and narrow codes, as nearly all have."""
        return self.width == NARROW and self.values.startswith(COLUMN_OF_BYTES)

    def column(self) -> FieldColumn:
        """ValueError on bytes that are no column."""
        values, end = unpack_names(memoryview(self.values), 0, self.number)
        if end != len(self.values):
            raise ValueError(f"the values of {self.name} do not fill their place")
        codes = np.frombuffer(self.codes, code_type(self.width))
        check_rows(codes, self.number)
        return FieldColumn(values, codes.astype(np.int64))


def split_fields(data: bytes, length: int) -> list[PackedField]:
    """The fields of `length` events; ValueError on bytes that are none."""
    try:
        found, at = [], 1
        for _ in range(data[0]):
            field_, at = _split(data, at, length)
            found.append(field_)
    except (struct.error, IndexError) as error:
        raise ValueError(f"the fields of a block are cut short: {error}") from None
    if at != len(data):
        raise ValueError(f"the fields of a block end at byte {at}, there are {len(data)}")
    return found


def _split(data: bytes, at: int, length: int) -> tuple[PackedField, int]:
    named, width, values, size = FIELD_HEAD.unpack_from(data, at)
    if width not in (NARROW, WIDE):
        raise ValueError(f"a code of {width} bytes is unknown")
    name = at + FIELD_HEAD.size
    codes = name + named + size
    end = codes + width * length
    text = data[name : name + named].decode()
    return PackedField(text, width, values, data[name + named : codes], data[codes:end]), end


def unpack_fields(data: bytes, length: int) -> dict[str, FieldColumn]:
    """What `pack_fields` wrote of `length` events; ValueError on any other bytes."""
    return {packed.name: packed.column() for packed in split_fields(data, length)}


def check_rows(rows: NDArray[np.integer[Any]], names: int | Integers) -> None:
    """Raises ValueError on a row that points beyond the names of its block."""
    if (rows >= names).any():
        raise ValueError(f"a row points beyond the block's {np.max(names)} names")


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
        rows = np.frombuffer(b"".join(self.rows), code_type(self.width))
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
