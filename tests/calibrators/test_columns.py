"""Integer columns as bytes: narrowest width, exact round trip, damaged bytes refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators.bins.codecs import SCALE, pack_column, unpack_column

entries = st.one_of(
    st.sampled_from([0, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1, SCALE, 255 * SCALE]),
    st.integers(0, 2**63 - 1),
)


@given(st.lists(entries), st.binary(max_size=3))
def test_a_column_comes_back_from_any_place(values, before):
    packed = pack_column(np.array(values, np.int64))

    column, end = unpack_column(memoryview(before + packed + b"more"), len(before), len(values))

    assert column.tolist() == values
    assert column.dtype == np.int64
    assert end == len(before) + len(packed)


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ([], 2),
        ([255, 0], 4),
        ([256, 0], 6),
        ([65536], 6),
        ([2**32], 10),
        ([3 * SCALE, 255 * SCALE], 4),
        ([3 * SCALE + 1], 6),
    ],
)
def test_the_narrowest_width_is_taken(values, size):
    assert len(pack_column(np.array(values, np.int64))) == size


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "end before it"),
        (b"\x01", "end before it"),
        (b"\x03\x00abc", "are unknown"),
        (b"\x00\x00", "are unknown"),
        (b"\x01\x02a", "are unknown"),
        (b"\x04\x00abc", "needs 6 bytes"),
        (b"\x08\x00" + b"\xff" * 8, "outside"),
        (b"\x08\x01" + (10**10).to_bytes(8, "little"), "outside"),
    ],
)
def test_bad_bytes_are_refused(data, rule):
    with pytest.raises(ValueError, match=rule):
        unpack_column(memoryview(data), 0, 1)
