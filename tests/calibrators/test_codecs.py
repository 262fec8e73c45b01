"""Sums are exact integers that refuse to wrap around; columns and names come back from bytes."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibrators.bins.codecs import (
    SCALE,
    SEPARATOR,
    even_spans,
    grand_total,
    group_totals,
    numbered,
    pack_column,
    pack_names,
    sum_by_key,
    to_fixed,
    unpack_column,
    unpack_names,
)
from tests.calibrators.strategies import names


@given(st.floats(0, 9.19e9))
@example(1.7e-9)
def test_a_value_is_rounded_to_the_nearest_unit(value):
    """Half a unit, and what the float product itself may lose."""
    error = abs(int(to_fixed(np.array([value]))[0]) - Fraction(value) * SCALE)

    assert error <= Fraction(1, 2) + Fraction(value * SCALE) / 2**52


@pytest.mark.parametrize("value", [9.2e9, 1e10, 1e300, 1.7e308, -9.2e9])
def test_a_value_that_does_not_fit_is_refused(value):
    with pytest.raises(ValueError, match=r"under 9\.2e9"):
        to_fixed(np.array([1.0, value]))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**15), st.integers(0, 9)), max_size=30)
)
def test_sums_by_key_are_those_of_a_dictionary(rows):
    """Keys whose sums are all 0 hold nothing and are left out."""
    expected: dict[int, tuple[int, int]] = {}
    for key, a, b in rows:
        before = expected.get(key, (0, 0))
        expected[key] = (before[0] + a, before[1] + b)
    columns = np.array(rows, np.int64).reshape(-1, 3).T

    keys, sums = sum_by_key(columns[0], columns[1:])

    found = dict(zip(keys.tolist(), map(tuple, sums.T.tolist()), strict=True))
    assert found == {key: total for key, total in expected.items() if any(total)}
    assert keys.tolist() == sorted(found)


@pytest.mark.parametrize(
    "parts",
    [
        [2**62, 2**62],
        [2**63 - 1, 1],
        # A float sum of these stays under 2**63, the integers do not.
        [2**63 - 1024, 500, 500, 500],
        [2**63 - 1] * 4,
    ],
)
def test_a_sum_that_would_wrap_around_is_refused(parts):
    """Of whichever column."""
    for columns in ([parts, [0] * len(parts)], [[0] * len(parts), parts]):
        with pytest.raises(OverflowError, match=r"more than 9\.2e9 samples"):
            sum_by_key(np.zeros(len(parts), np.int64), np.array(columns))


def test_a_large_total_over_small_sums_is_not_refused():
    keys, sums = sum_by_key(np.arange(4), np.full((1, 4), 9 * 10**18))

    assert keys.tolist() == [0, 1, 2, 3]
    assert sums.tolist() == [[9 * 10**18] * 4]


def test_totals_do_not_overflow_and_whole_totals_stay_whole():
    units = np.array([9 * 10**18] * 3 + [300_000_000, 100_000_000])

    assert grand_total(units[:3]) == 27e9
    assert group_totals(units, np.array([0, 3])).tolist() == [27e9, 0.4]
    assert grand_total(units[:0]) == 0.0
    assert grand_total(np.array([600_000_000] * 2)) == 1.2


@given(st.lists(st.integers(0, 10**13), min_size=1), st.data())
def test_a_total_does_not_depend_on_how_the_units_are_spread(units, data):
    taken = data.draw(st.integers(0, units[0]))
    spread = [units[0] - taken, *units[1:], taken]

    assert grand_total(np.array(spread)) == grand_total(np.array(units))


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


@given(st.lists(names), st.binary(max_size=3))
def test_names_come_back_from_any_place(listed, before):
    data = before + pack_names(listed)

    assert unpack_names(memoryview(data + b"x"), len(before), len(listed)) == (
        tuple(listed),
        len(data),
    )


@given(st.lists(st.sampled_from(["a", "b", "spring sale", "été", "广告", ""])))
def test_numbers_of_names_say_which_of_the_distinct_ones_stands_where(listed):
    encoded = [name.encode() for name in listed]

    distinct, numbers = numbered(np.array([len(name) for name in encoded], int), b"".join(encoded))

    assert distinct == tuple(dict.fromkeys(listed))
    assert [distinct[number] for number in numbers.tolist()] == listed


def test_numbers_of_names_that_are_not_utf_8_are_refused():
    with pytest.raises(ValueError, match="utf-8"):
        numbered(np.array([1, 1]), b"a\xff")


@pytest.mark.parametrize(
    "lengths",
    [
        [4],
        [2**63 - 1],
        # Together they wrap around to a small number.
        [2**63 - 1, 2**63 - 1, 4],
        [2**62, 2**62, 2**62, 2**62],
    ],
)
def test_lengths_beyond_the_bytes_are_refused(lengths):
    data = pack_column(np.array(lengths, np.int64)) + b"abc"

    with pytest.raises(ValueError, match="names at byte 0"):
        unpack_names(memoryview(data), 0, len(lengths))


def test_bytes_that_are_not_utf_8_are_refused():
    with pytest.raises(ValueError, match="utf-8"):
        unpack_names(memoryview(b"\x01\x00\x01\xff"), 0, 1)


def test_a_name_without_utf_8_form_is_refused():
    with pytest.raises(ValueError, match="utf-8"):
        pack_names(["\ud800"])


# What sorts between a campaign and its versions may have to stay with them; those are tested in
# test_model_versions.py.
TEXTS = st.text(st.characters(min_codepoint=ord(SEPARATOR) + 1), max_size=3)


@given(names=st.sets(TEXTS).map(sorted), most=st.integers(1, 5))
def test_spans_hold_every_name_once_and_differ_by_one_at_most(names, most):
    spans = even_spans(names, most)
    held = [
        [name for name in names if name >= first and (behind is None or name < behind)]
        for first, behind in spans
    ]
    sizes = [len(span) for span in held]
    assert [name for span in held for name in span] == names
    assert max(sizes, default=0) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(spans) == -(-len(names) // most)
