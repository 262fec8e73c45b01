"""Integer columns as bytes: each in the narrowest width that holds it.

Layout of one column, little-endian: width u1 (1, 2, 4 or 8 bytes an entry), unit u1 (0: as they
are; 1: all entries are multiples of SCALE and stored divided by it), then the entries.

Campaign names as bytes: a column of UTF-8 lengths, then the UTF-8 text without separators.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.fixed_point import SCALE
from calibrators.samples import Integers

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
