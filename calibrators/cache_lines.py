"""Tables whose rows are read at random: each row where it costs one line of the cache, not two."""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

HALF_LINE = 32
"""Bytes of a row."""

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def half_lines(rows: int, dtype: type[Any]) -> NDArray[Any]:
    """Zeros of shape (rows, 32 bytes of the dtype), each row within one line of the cache.

    In small pages: the first touch of a page stops all threads of a process whose memory the system
    has to find first, and of a huge one, which numpy would ask for, some 500 times longer.
    """
    columns = HALF_LINE // np.dtype(dtype).itemsize
    room = mmap.mmap(-1, max(1, rows) * HALF_LINE, flags=_PRIVATE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        room.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(room, dtype).reshape(-1, columns)[:rows]
