"""Attribution against a double loop, and what it counts and refuses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem import attribute

WINDOW = 10.0

clicks = st.dictionaries(st.integers(-3, 8), st.integers(0, 30), max_size=8)
conversions = st.lists(st.tuples(st.integers(-3, 8), st.integers(-5, 50)), max_size=20)


def by_double_loop(
    clicks: dict[int, int], conversions: list[tuple[int, int]], as_of: float
) -> tuple[list[float], dict[str, int]]:
    """First delay of each click (nan: none), and the counts."""
    counts = {"orphans": 0, "early": 0, "late": 0, "repeats": 0}
    delays = dict.fromkeys(clicks, float("nan"))
    for click, at in conversions:
        if at > as_of:
            continue
        if click not in clicks:
            counts["orphans"] += 1
        elif at < clicks[click]:
            counts["early"] += 1
        elif at >= clicks[click] + WINDOW:
            counts["late"] += 1
        elif np.isnan(delays[click]):
            delays[click] = at - clicks[click]
        else:
            counts["repeats"] += 1
            delays[click] = min(delays[click], at - clicks[click])
    return list(delays.values()), counts


@given(clicks, conversions, st.integers(0, 60), st.booleans())
def test_same_as_a_double_loop(clicks, conversions, as_of, named):
    """Of integers and of strings alike."""
    delays, counts = by_double_loop(clicks, conversions, as_of)
    ids: list[Any] = [f"click {i}" if named else i for i in clicks]
    of: list[Any] = [f"click {i}" if named else i for i, _ in conversions]

    known = attribute(
        ids, list(clicks.values()), of, [at for _, at in conversions], window=WINDOW, as_of=as_of
    )

    assert len(known) == len(clicks)
    np.testing.assert_array_equal(known.delay, delays)
    np.testing.assert_array_equal(known.converted, ~np.isnan(delays))
    np.testing.assert_array_equal(known.age, [as_of - at for at in clicks.values()])
    np.testing.assert_array_equal(known.mature, [as_of - at >= WINDOW for at in clicks.values()])
    assert counts == {name: getattr(known, name) for name in counts}
    assert known.window == WINDOW


def test_a_delay_of_nothing_counts_and_one_of_the_window_does_not():
    known = attribute(
        [1, 2, 3], [5.0, 5.0, 5.0], [1, 2, 3], [5.0, 15.0, 14.9], window=10.0, as_of=15.0
    )

    assert known.converted.tolist() == [True, False, True]
    assert known.late == 1
    assert known.mature.all()


def test_neighbouring_large_ids_stay_apart():
    """2^53 and its neighbour are one number as float64."""
    ids = np.array([2**53, 2**53 + 1])

    known = attribute(ids, [0.0, 0.0], ids[1:], [1.0], window=9.0, as_of=2.0)

    assert known.converted.tolist() == [False, True]


def test_strings_as_objects():
    known = attribute(
        np.array(["b", "a"], object), [0.0, 0.0], np.array(["a"]), [1.0], window=9.0, as_of=2.0
    )

    assert known.converted.tolist() == [False, True]


def test_no_clicks_and_no_conversions():
    nothing = attribute([], [], [], [], window=1.0, as_of=0.0)
    only_orphans = attribute([], [], ["a"], [0.0], window=1.0, as_of=0.0)

    assert (len(nothing), nothing.orphans) == (0, 0)
    assert (len(only_orphans), only_orphans.orphans) == (0, 1)


GOOD: dict[str, Any] = {
    "click_ids": [1, 2],
    "clicked_at": [0.0, 0.0],
    "conversion_click_ids": [1],
    "converted_at": [1.0],
    "window": 9.0,
    "as_of": 5.0,
}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"click_ids": [7, 7]}, "click_ids: 7 stands twice"),
        ({"click_ids": ["x", "x"], "conversion_click_ids": ["x"]}, "click_ids: x stands twice"),
        ({"click_ids": [1]}, "click_ids has 1, clicked_at has 2"),
        ({"converted_at": []}, "conversion_click_ids has 1, converted_at has 0"),
        ({"click_ids": ["1", "2"]}, "integers of one kind or strings, not <U1 and int64"),
        ({"conversion_click_ids": np.array([1], np.uint64)}, "not int64 and uint64"),
        ({"click_ids": [1.0, 2.0], "conversion_click_ids": [1.0]}, "not float64 and float64"),
        ({"click_ids": np.array(["a", 1], object)}, "not object and int64"),
        ({"click_ids": [[1, 2]]}, "click_ids must have one dimension, not 2"),
        ({"conversion_click_ids": 1}, "conversion_click_ids must have one dimension, not 0"),
        ({"clicked_at": [0.0, np.nan]}, r"clicked_at\[1\] = nan: every value must be finite"),
        ({"converted_at": [np.inf]}, r"converted_at\[0\] = inf"),
        ({"window": 0.0}, "window = 0.0: must be finite and above 0"),
        ({"window": np.inf}, "window = inf"),
        ({"as_of": np.nan}, "as_of = nan: must be finite"),
    ],
)
def test_what_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        attribute(**GOOD | bad)
