"""Values as fixed-point integers, whose sums are the same to the bit in any order, split or engine;
columns of integers and campaign names as bytes; and names as rows of tables in their order.
Each column is in the narrowest width that holds it. Its layout, little-endian: width u1 (1, 2, 4 or
8 bytes an entry), unit u1 (0: as they are; 1: all entries are multiples of SCALE and stored divided
by it), then the entries.

Campaign names as bytes: a column of UTF-8 lengths, then the UTF-8 text without separators.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers

Number = TypeVar("Number", np.int64, np.float64)

Part = tuple[Integers, Integers]
"""Keys, shape (n,), and the columns to sum over them, shape (k, n)."""

SCALE = 1_000_000_000
"""Units in 1.0: a value v is stored as floor(v * SCALE + 0.5) in an int64."""

LIMIT = 9.2e18
"""Largest sum: under 2**63 by more than the rounding of a float sum that watches for overflow."""

_LARGEST = 255

_SPARSEST = 4
"""Keys of a span up to this many times their number are summed in place, others by sorting."""


class BinOverflow(OverflowError, ValueError):
    """A value, or a sum, that no bin can hold: it must stay under 9.2e9."""


def to_fixed(values: Floats) -> Integers:
    """Each value in fixed point, rounded half up (error at most 5e-10); raises BinOverflow."""
    with np.errstate(over="ignore"):
        scaled = np.floor(values * SCALE + 0.5)
    if scaled.size and np.abs(scaled).max() >= LIMIT:
        largest = values[np.abs(scaled).argmax()]
        raise BinOverflow(f"{largest}: a value in a bin must be under 9.2e9")
    return scaled.astype(np.int64)


def from_fixed(units: Integers) -> Floats:
    """The fixed-point integers as float64."""
    return units / SCALE


def group_totals(units: Integers, starts: Integers) -> Floats:
    """Sums of the entries, shape (n,), from each start to the next, shape (k,), as float64.

    Whole and fractional parts are added apart, so that no total overflows or depends on how the
    units are spread over the entries.
    """
    whole, rest = (np.add.reduceat(part, starts) for part in np.divmod(units, SCALE))
    carried, rest = np.divmod(rest, SCALE)
    return np.asarray(whole + carried + from_fixed(rest))


def grand_total(units: Integers) -> float:
    """The sum of all entries; see `group_totals`."""
    return float(group_totals(units, np.array([0]))[0]) if units.size else 0.0


def sum_by_key(keys: Integers, columns: Integers) -> tuple[Integers, Integers]:
    """Sum the columns, shape (k, n), over equal keys, shape (n,); nothing is negative.

    Returns the distinct keys ascending, (m,), and the sums, (k, m), without the keys whose sums
    are all 0. Raises OverflowError rather than wrap around.
    """
    return sum_parts([(keys, columns)])


def sum_parts(parts: Sequence[Part]) -> tuple[Integers, Integers]:
    """`sum_by_key` of one or more parts' keys and columns, without putting them end to end first
    where that can be spared."""
    size = sum(keys.size for keys, _ in parts)
    if size == 0:
        return parts[0]
    _refuse_overflow(parts)
    span = 1 + max(int(keys.max(initial=0)) for keys, _ in parts)
    return _sum_in_place(parts, span) if span <= _SPARSEST * size else _sum_sorted(parts)


def _sum_in_place(parts: Sequence[Part], span: int) -> tuple[Integers, Integers]:
    sums = np.zeros((len(parts[0][1]), span), np.int64)
    for keys, columns in parts:
        for total, column in zip(sums, columns, strict=True):
            np.add.at(total, keys, column)
    held = np.flatnonzero(sums.any(axis=0))
    return held, sums[:, held]


def _sum_sorted(parts: Sequence[Part]) -> tuple[Integers, Integers]:
    keys, columns = _end_to_end(parts)
    # Integers add to the same in any order; a stable sort takes several times as long.
    order = np.argsort(keys)
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sums = np.empty((len(columns), len(starts)), np.int64)
    for total, column in zip(sums, columns, strict=True):
        np.add.reduceat(column[order], starts, out=total)
    held = np.bitwise_or.reduce(sums) != 0
    keys = ordered[starts]
    return (keys, sums) if held.all() else (keys[held], sums[:, held])


def _end_to_end(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([keys for keys, _ in parts]), np.hstack([sums for _, sums in parts])


def _refuse_overflow(parts: Sequence[Part]) -> None:
    # The largest entries bound every sum, so the exact check runs only where one could overflow.
    if sum(float(sums.max(initial=0)) * sums.shape[1] for _, sums in parts) < LIMIT:
        return
    keys, columns = _end_to_end(parts)
    # Keys of a short span are places already.
    short = keys.max() <= _SPARSEST * keys.size
    place = keys if short else np.unique(keys, return_inverse=True)[1]
    if max(np.bincount(place, column).max() for column in columns) >= LIMIT:
        raise BinOverflow("a bin holds more than 9.2e9 samples: use shorter windows")


_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}
_ALL = slice(None)


def pack_column(values: Integers) -> bytes:
    """The column's bytes; values are not negative."""
    divided = values // SCALE
    whole = bool(values.size) and np.array_equal(divided * SCALE, values)
    stored = divided if whole else values
    largest = int(stored.max(initial=0))
    width = next(w for w in (1, 2, 4, 8) if largest < 1 << min(8 * w, 63))
    return bytes([width, whole]) + stored.astype(_WIDTHS[width]).tobytes()


def unpack_column(data: memoryview, offset: int, length: int) -> tuple[Integers, int]:
    """The column that starts at offset, as int64 of shape (length,), and the offset behind it.

    Raises ValueError when the bytes are cut short or say an unknown width or unit.
    """
    column, end = PackedColumn.read(data, offset, length)
    return column.values(), end


class PackedColumn(NamedTuple):
    """A column whose bytes stay as they are, read a part at a time: entries times a unit."""

    entries: NDArray[np.integer[Any]]
    unit: int = 1

    @classmethod
    def read(cls, data: memoryview, offset: int, length: int) -> tuple[Self, int]:
        """The column that starts at offset, and the offset behind it; as `unpack_column`."""
        if offset + 2 > len(data):
            raise ValueError(f"column at byte {offset}: the bytes end before it")
        width, unit = data[offset], data[offset + 1]
        if width not in _WIDTHS or unit > 1:
            raise ValueError(f"column at byte {offset}: width {width}, unit {unit} are unknown")
        end = offset + 2 + width * length
        if end > len(data):
            raise ValueError(f"column at byte {offset}: needs {end} bytes, there are {len(data)}")
        column = cls(np.frombuffer(data, _WIDTHS[width], length, offset + 2), SCALE if unit else 1)
        column._check_range(offset)
        return column, end

    @property
    def largest(self) -> int:
        """The largest value; 0 of none."""
        return int(self.entries.max(initial=0)) * self.unit

    def values(self, span: slice = _ALL, out: Integers | None = None) -> Integers:
        """The values of a span, as int64, written to `out` if given."""
        values: Integers = np.multiply(self.entries[span], self.unit, out=out, dtype=np.int64)
        return values

    def _check_range(self, offset: int) -> None:
        # Narrow entries fit in either unit, so only those of 8 bytes are looked at.
        if self.entries.itemsize < 8 or not self.entries.size:
            return
        largest = (2**63 - 1) // self.unit
        if not 0 <= self.entries.min() <= self.entries.max() <= largest:
            raise ValueError(f"column at byte {offset}: an entry is outside [0, {largest}]")


_PIECE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ByteColumn(Generic[Number]):
    """Numbers, (e,), a byte each; those that are not whole or need more than a byte stand apart,
    with their places. Nothing is lost."""

    bytes: NDArray[np.uint8]
    places: NDArray[np.int32]
    others: NDArray[Number]

    @classmethod
    def of(cls, values: NDArray[Number]) -> Self:
        """The column of these values."""
        narrow = np.clip(values, 0, _LARGEST).astype(np.uint8)
        places = np.flatnonzero(narrow != values)
        return cls(narrow, places.astype(np.int32), values[places])

    @classmethod
    def joined(cls, columns: Sequence[Self]) -> Self:
        """One column of all, one at least, end to end."""
        starts = np.cumsum([0, *(len(each.bytes) for each in columns)]).tolist()
        places = [each.places + start for each, start in zip(columns, starts, strict=False)]
        narrow, others = ([getattr(each, of) for each in columns] for of in ("bytes", "others"))
        return cls(np.concatenate(narrow), np.concatenate(places), np.concatenate(others))

    def values(self) -> NDArray[Number]:
        """The same values again."""
        found = self.bytes.astype(self.others.dtype)
        found[self.places] = self.others
        return found


def pack_names(names: Sequence[str]) -> bytes:
    """The names' bytes."""
    encoded = [name.encode() for name in names]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return pack_column(lengths) + b"".join(encoded)


def unpack_names(data: memoryview, offset: int, count: int) -> tuple[tuple[str, ...], int]:
    """The names that start at offset, and the offset behind them; ValueError on bad bytes."""
    lengths, start = unpack_column(data, offset, count)
    if lengths.max(initial=0) > len(data):
        raise ValueError(f"names at byte {offset}: a length of {lengths.max()} bytes")
    ends = np.cumsum(lengths)
    end = start + (int(ends[-1]) if count else 0)
    if end > len(data):
        raise ValueError(f"names at byte {offset}: need {end} bytes, there are {len(data)}")
    text = bytes(data[start:end])
    return _cut(text, (ends - lengths).tolist(), ends.tolist()), end


def numbered(lengths: Integers, text: bytes) -> tuple[tuple[str, ...], Integers]:
    """The distinct ones of n names, whose lengths in bytes, (n,), and text these are, in the order
    of their first; and the number of each, (n,), among them. ValueError on bytes that are no text.

    For names of which most come often: each is decoded once.
    """
    edges = np.append(0, np.cumsum(lengths)).tolist()
    number_of: defaultdict[bytes, int] = defaultdict(count().__next__)
    # Nothing but C is called, and no list of the names is made.
    spans = map(slice, edges, islice(edges, 1, None))
    found = map(number_of.__getitem__, map(text.__getitem__, spans))
    numbers = np.fromiter(found, np.int64, len(lengths))
    return tuple(name.decode() for name in number_of), numbers


def _cut(text: bytes, starts: list[int], ends: list[int]) -> tuple[str, ...]:
    # Text of one byte a letter is decoded once, and cut as letters.
    letters = text.decode("ascii") if text.isascii() else None
    names: list[str] = []
    # In pieces, because no other thread gets a turn while one call walks over names.
    for start in range(0, len(starts), _PIECE):
        spans = map(slice, starts[start : start + _PIECE], ends[start : start + _PIECE])
        if letters is None:
            names.extend(text[span].decode() for span in spans)
        else:
            names.extend(map(letters.__getitem__, spans))
    return tuple(names)


def sorted_rows(campaigns: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    """The distinct names ascending, and the place of each of these, (n,), among them."""
    # Distinct in the order they come in, which is often that of their names, and then soon sorted.
    names = tuple(sorted(dict.fromkeys(campaigns)))
    row_of = {name: row for row, name in enumerate(names)}
    return names, np.fromiter(map(row_of.__getitem__, campaigns), np.int64, len(campaigns))


def merged_rows(parts: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Integers]]:
    """The names of all parts, each of which ascends, and the rows of each part's names in them."""
    if len(parts) == 1:
        return parts[0], [np.arange(len(parts[0]))]
    names, rows = sorted_rows([name for part in parts for name in part])
    ends = np.cumsum([len(part) for part in parts])
    return names, np.split(rows, ends[:-1]) if parts else []


SEPARATOR: Final = "\x1e"
"""Between a campaign and a version of the model, in a name: see `model_versions`."""


def campaign_of(name: str) -> str:
    """The campaign alone; of a version without a campaign its name."""
    return name.partition(SEPARATOR)[0] or name


def campaigns_of(names: Sequence[str]) -> Sequence[str]:
    """The campaign of each name."""
    return [*map(campaign_of, names)] if SEPARATOR in "".join(names) else names


def between_campaigns(names: Sequence[str], place: int) -> int:
    """The place among ascending names, or the next one that has no name of a campaign on either
    side: between a campaign and its versions stand only names with characters up to U+001E."""
    while 0 < place < len(names) and min(names[place], default=SEPARATOR) <= SEPARATOR:
        place += 1
    return place


def spans_of(names: Sequence[str], most: int) -> Iterator[range]:
    """The places of ascending names, so many at a time, and all names of a campaign together."""
    first = 0
    while first < len(names):
        behind = between_campaigns(names, min(first + most, len(names)))
        yield range(first, behind)
        first = behind


def places_between(names: Sequence[str], first: str, behind: str | None) -> tuple[int, int]:
    """Where the names of first <= name < behind begin and end among these, ascending."""
    return bisect_left(names, first), len(names) if behind is None else bisect_left(names, behind)


def even_spans(names: Sequence[str], most: int) -> list[tuple[str, str | None]]:
    """As few spans of ascending names as hold at most so many each, but for those of one campaign:
    the first name of each, and the one behind it, None behind the last. They are even, because a
    small one at the end would cost as much as the others."""
    count = -(-len(names) // most)
    places = {between_campaigns(names, len(names) * span // count) for span in range(count)}
    firsts = [names[place] for place in sorted(places) if place < len(names)]
    behind: list[str | None] = [*firsts[1:], None]
    return list(zip(firsts, behind, strict=False))
