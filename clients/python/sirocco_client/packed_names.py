"""Campaign names as they stand in an atlas: a column of their lengths, then their UTF-8 text."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sirocco_client.errors import BadAtlas

Integers = NDArray[np.int64]
Breath = Callable[[], None]

_WIDTHS: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}
_SCALE: Final = 10**9
_AT_ONCE: Final = 1000


def unpack_lengths(data: memoryview, offset: int, count: int) -> tuple[Integers, int]:
    """The lengths in bytes, and the offset behind them; raises BadAtlas.

    An entry has 1, 2, 4 or 8 bytes, and counts once or, if the unit is 1, a billion times.
    """
    if offset + 2 > len(data):
        raise BadAtlas("names: the bytes end early")
    width, unit = data[offset], data[offset + 1]
    end = offset + 2 + width * count
    if width not in _WIDTHS or unit > 1 or end > len(data):
        raise BadAtlas(f"names: width {width} and unit {unit} of {count} lengths")
    lengths = np.frombuffer(data, _WIDTHS[width], count, offset + 2).astype(np.int64)
    largest = (len(data) - end) // (_SCALE if unit else 1)
    if count and not 0 <= lengths.min() <= lengths.max() <= largest:
        raise BadAtlas("names: a length is more than there are bytes")
    return lengths * (_SCALE if unit else 1), end


def rows_by_name(text: bytes, lengths: Integers, breathe: Breath) -> Mapping[str, int]:
    """The row of each name, from 1; raises BadAtlas on text that is no UTF-8, or a name that
    stands twice. `breathe` is called now and then, so that other threads get their turn."""
    rows: dict[str, int] = {}
    names = _names(text, lengths)
    row = 0
    try:
        while piece := list(islice(names, _AT_ONCE)):
            rows.update(zip(piece, range(row + 1, row + 1 + len(piece)), strict=True))
            row += len(piece)
            breathe()
    except UnicodeDecodeError:
        raise BadAtlas(f"names: the text behind name {row} is no UTF-8") from None
    if len(rows) < len(lengths):
        raise BadAtlas("names: a campaign stands twice")
    return rows


def _names(text: bytes, lengths: Integers) -> Iterator[str]:
    end = 0
    for length in lengths:
        start, end = end, end + int(length)
        yield text[start:end].decode()
