"""Fields of scores as they are given, and of events as columns: which of them are chosen, one
behind the other, and their bytes.

The bytes are, little-endian, the number of fields u1, and of each

    bytes of its name u1, bytes of a code u1 (2 or 4), values v u4, bytes of their names u4
    its name, UTF-8
    names of the v values (`calibrators.bins.codecs`); "" stands for other: nothing was by_event
    codes u2 or u4 (n): the value of each event, as its place among these
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.codecs import unpack_names
from calibrators.fields.sums import OTHER, FieldColumn
from calibrators.samples import Floats

LONGEST_VALUE: Final = 256
"""Bytes of a value."""

FieldColumns = Mapping[str, FieldColumn]
"""By name; of a field that is not there every event's value is other."""

MOST_REMEMBERED: Final = 1 << 14

Codes = NDArray[np.int32]
"""Places of values among those of a field; 0 is other."""


Given = str | Sequence[str] | Codes
"""A field's values of n scores: one for all, one each, or the codes of one each."""


class RatioOf(dict[str, float]):
    """Odds ratios by value; of a value without a row that of other."""

    __slots__ = ()

    def __missing__(self, value: str) -> float:
        return self[OTHER]


def are_codes(given: Given) -> TypeGuard[Codes]:
    return isinstance(given, np.ndarray)


class Products(dict[tuple[Given, ...], float]):
    """Products, or sums, by the values of a score; each is worked out when it first comes."""

    __slots__ = ("_product",)

    def __init__(self, product: Callable[[Sequence[str]], float]) -> None:
        super().__init__()
        self._product = product

    def __missing__(self, values: tuple[str, ...]) -> float:
        if len(self) >= MOST_REMEMBERED:
            self.clear()
        found = self[values] = self._product(values)
        return found

    def of_columns(self, given: Sequence[Given], n: int) -> Floats:
        """Of n scores, (n,)."""
        return np.fromiter(self.each(given, n), np.float64, n)

    def each(self, given: Sequence[Given], n: int) -> Iterator[float]:
        """The same, one after the other."""
        columns = (repeat(each, n) if isinstance(each, str) else each for each in given)
        values = zip(*columns, strict=True) if given else repeat((), n)
        return map(self.__getitem__, values)


def chosen(columns: FieldColumns, kept: NDArray[Any] | slice) -> dict[str, FieldColumn]:
    """The columns of the events that a mask or an array of places chooses."""
    return {name: FieldColumn(names, codes[kept]) for name, (names, codes) in columns.items()}


def encoded(names: Sequence[str]) -> FieldColumn:
    """A column of names, (n,)."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    codes = np.fromiter(map(places.__getitem__, names), np.int64, len(names))
    return FieldColumn(tuple(places), codes)


def end_to_end(parts: Sequence[tuple[int, FieldColumns]]) -> dict[str, FieldColumn]:
    """The columns of so many events each, one part behind the other."""
    names = sorted(set().union(*(columns for _, columns in parts)))
    return {
        name: _joined([columns.get(name) or FieldColumn.missing(n) for n, columns in parts])
        for name in names
    }


def _joined(parts: Sequence[FieldColumn]) -> FieldColumn:
    places: dict[str, int] = {}
    for part in parts:
        for value in part.names:
            places.setdefault(value, len(places))
    rows = [np.array([places[value] for value in part.names], np.int64) for part in parts]
    pairs = zip(parts, rows, strict=True)
    return FieldColumn(tuple(places), np.concatenate([row[part.codes] for part, row in pairs]))


def by_event(columns: FieldColumns, length: int) -> list[dict[str, str]]:
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
        codes = np.frombuffer(self.codes, f"<u{self.width}")
        if (codes >= self.number).any():
            raise ValueError(
                f"a code of {self.name} points beyond the block's {self.number} values"
            )
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
