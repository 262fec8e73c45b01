"""Tables in lines of the cache: where their rows lie."""

import numpy as np
import pytest

from calibrators.cache_lines import HALF_LINE, half_lines


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_no_row_crosses_a_line_of_the_cache(rows: int, dtype: type) -> None:
    table = half_lines(rows, dtype)

    assert table.shape == (rows, HALF_LINE // np.dtype(dtype).itemsize)
    assert table.ctypes.data % HALF_LINE == 0
    assert table.flags.c_contiguous
    assert not table.any()
