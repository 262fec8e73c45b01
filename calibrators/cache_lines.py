"""Tables whose rows are read at random: each row where it costs one line of the cache, not two."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

HALF_LINE = 32
"""Bytes of a row."""


def half_lines(rows: int, dtype: type[Any]) -> NDArray[Any]:
    """Zeros of shape (rows, 32 bytes of the dtype), each row within one line of the cache."""
    columns = HALF_LINE // np.dtype(dtype).itemsize
    room = np.zeros((rows + 1) * columns, dtype)
    behind = -room.ctypes.data % HALF_LINE // room.itemsize
    return room[behind : behind + rows * columns].reshape(rows, columns)
