"""Campaign names as bytes: a column of UTF-8 lengths, then the UTF-8 text without separators."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from calibrators.columns import pack_column, unpack_column


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
    ends = (start + np.cumsum(lengths)).tolist()
    end = ends[-1] if ends else start
    if end > len(data):
        raise ValueError(f"names at byte {offset}: need {end} bytes, there are {len(data)}")
    text = bytes(data[start:end])
    starts = [0, *(stop - start for stop in ends)]
    names = (text[a:b].decode() for a, b in pairwise(starts))
    return tuple(names), end
