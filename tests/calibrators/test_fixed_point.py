"""Fixed-point sums are exact integers, and refuse to wrap around."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibrators.bins.codecs import SCALE, grand_total, group_totals, sum_by_key, to_fixed


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
