"""Tables whose rows are read at random: each row where it costs one line of the cache, not two."""

import mmap
from collections import deque
from contextlib import suppress
from typing import Any, Final
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

HALF_LINE: Final = 32
"""Bytes of a row."""

HUGE_PAGE: Final = 2 * 1024 * 1024
LARGE: Final = HUGE_PAGE // 2
"""Bytes from which a table is worth huge pages, and to be kept for the next of its size."""

KEPT: Final = 16
"""Rooms that nobody uses: those of a version of eight targets, with two large tables each."""

_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_spare: Final[deque[mmap.mmap]] = deque(maxlen=KEPT)


def half_lines(rows: int, dtype: type[Any]) -> NDArray[Any]:
    """Room of shape (rows, 32 bytes of the dtype), each row within one line of the cache; what it
    holds is left to the caller to write.

    A processor remembers where a few thousand pages are, so a large table is in huge ones. Memory
    that is touched for the first time has to be found by the system, and under a hypervisor by the
    host, which may stop everything for milliseconds. So the room of a large table that is gone is
    used again, by one that needs half of it at least; `KEPT` that nobody uses are kept.
    """
    size = max(1, rows) * HALF_LINE
    table = _small(size, dtype) if size < LARGE else _large(size, dtype)
    found: NDArray[Any] = table.reshape(-1, HALF_LINE // table.itemsize)[:rows]
    return found


def _small(size: int, dtype: type[Any]) -> NDArray[Any]:
    return np.frombuffer(mmap.mmap(-1, size, flags=_PRIVATE), dtype)


def _large(size: int, dtype: type[Any]) -> NDArray[Any]:
    room = _taken(size) or _new(size)
    start = -np.frombuffer(room, np.uint8).ctypes.data % HUGE_PAGE
    table = np.frombuffer(room, dtype, size // np.dtype(dtype).itemsize, start)
    # All views refer to this array, and end before it does.
    finalize(table, _spare.append, room).atexit = False
    return table


def _taken(size: int) -> mmap.mmap | None:
    for room in tuple(_spare):
        if size <= len(room) - HUGE_PAGE <= 2 * size:
            # Another thread may have been faster.
            with suppress(ValueError):
                _spare.remove(room)
                return room
    return None


def _new(size: int) -> mmap.mmap:
    """Room for a table that may start at a huge page, and for an eighth more: the next is hardly
    ever just as large. What is not touched takes no memory."""
    room = mmap.mmap(-1, size + size // 8 + HUGE_PAGE, flags=_PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        room.madvise(mmap.MADV_HUGEPAGE)
    return room
