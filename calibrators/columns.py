"""Integer columns as bytes: each in the narrowest width that holds it.

Layout of one column, little-endian: width u1 (1, 2, 4 or 8 bytes an entry), unit u1 (0: as they
are; 1: all entries are multiples of SCALE and stored divided by it), then the entries.
"""

import numpy as np

from calibrators.fixed_point import SCALE
from calibrators.samples import Integers

_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}


def pack_column(values: Integers) -> bytes:
    """The column's bytes; values are not negative."""
    whole = bool(values.size) and not (values % SCALE).any()
    stored = values // SCALE if whole else values
    largest = int(stored.max(initial=0))
    width = next(w for w in (1, 2, 4, 8) if largest < 1 << min(8 * w, 63))
    return bytes([width, whole]) + stored.astype(_WIDTHS[width]).tobytes()


def unpack_column(data: memoryview, offset: int, length: int) -> tuple[Integers, int]:
    """The column that starts at offset, as int64 of shape (length,), and the offset behind it.

    Raises ValueError when the bytes are cut short or say an unknown width or unit.
    """
    if offset + 2 > len(data):
        raise ValueError(f"column at byte {offset}: the bytes end before it")
    width, unit = data[offset], data[offset + 1]
    if width not in _WIDTHS or unit > 1:
        raise ValueError(f"column at byte {offset}: width {width}, unit {unit} are unknown")
    end = offset + 2 + width * length
    if end > len(data):
        raise ValueError(f"column at byte {offset}: needs {end} bytes, there are {len(data)}")
    stored = np.frombuffer(data, _WIDTHS[width], length, offset + 2).astype(np.int64)
    return _in_units(stored, unit, offset), end


def _in_units(stored: Integers, unit: int, offset: int) -> Integers:
    largest = (2**63 - 1) // (SCALE if unit else 1)
    if stored.size and not 0 <= stored.min() <= stored.max() <= largest:
        raise ValueError(f"column at byte {offset}: an entry is outside [0, {largest}]")
    return stored * SCALE if unit else stored
