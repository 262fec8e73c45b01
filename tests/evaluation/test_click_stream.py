"""Clicks in order of time with the delays of their conversions, and which of them a refit of a
delayed target learns from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import ClickPlatform, ClickStream, ClickWindows
from pccem import Clicks, Features

HOUR, DAY = 3600.0, 86_400.0


def stream_of(times, delay):
    """Clicks of one campaign."""
    n = len(times)
    clicks = Clicks(
        np.array(times, float), ("a",), np.zeros(n, np.int32), np.full(n, 0.5), Features({}, n)
    )
    return ClickStream(clicks, np.array(delay, float))


def small():
    return ClickPlatform(campaigns=3, clicks_per_hour=50, cvr=0.2, seed=4).hours(0, 30).stream


def test_clicks_between_two_moments():
    """The first moment belongs to the span, the last does not."""
    stream = stream_of([0, 10, 10, 20, 30], [np.nan] * 5)

    assert stream.between(10, 30) == slice(1, 4)
    assert stream.between(11, 19) == slice(3, 3)
    assert stream.between(-5, 100) == slice(0, 5)


def test_an_outcome_is_a_conversion_inside_the_window():
    """A delay as long as the window is outside, as `pccem.attribute` has it."""
    stream = stream_of([0, 0, 0, 0], [0.0, 59.9, 60.0, np.nan])

    assert stream.outcomes(60.0).tolist() == [1, 1, 0, 0]


@given(st.integers(-DAY, 3 * DAY), st.sampled_from([HOUR, DAY, 7 * DAY]))
def test_the_attribution_is_that_of_a_plain_loop(after, window):
    """Known at a moment is what has converted by then inside the window."""
    stream = small()
    as_of = float(stream.clicks.clicked_at[0] + after)
    times, delay = stream.clicks.clicked_at, stream.delay

    known = stream.attribution(window=window, as_of=as_of)

    expected = [d < window and t + d <= as_of for t, d in zip(times, delay, strict=True)]
    assert known.converted.tolist() == expected
    assert known.delay[known.converted] == pytest.approx(delay[known.converted], abs=1e-5)
    assert np.array_equal(known.age, as_of - times)


def test_parts_join_to_the_whole():
    """Selected and concatenated, a stream is what it was."""
    stream = small()

    joined = ClickStream.concatenate(
        [stream.select(slice(0, 300)), stream.select(slice(300, None))]
    )

    assert len(joined) == len(stream)
    assert np.array_equal(joined.delay, stream.delay, equal_nan=True)
    assert np.array_equal(joined.clicks.clicked_at, stream.clicks.clicked_at)
    assert len(ClickStream.concatenate([])) == 0


def test_masks_and_indices_select_alike():
    """Both keep the order of time."""
    stream = small()
    mask = stream.clicks.scores > 0.5

    by_mask, by_index = stream.select(mask), stream.select(np.flatnonzero(mask))

    assert np.array_equal(by_mask.delay, by_index.delay, equal_nan=True)
    assert np.array_equal(by_mask.clicks.scores, by_index.clicks.scores)


@pytest.mark.parametrize(
    ("times", "delay", "message"),
    [
        ([2, 1], [np.nan, np.nan], "in order of time: number 1 is too early"),
        ([1, 2], [np.nan], "clicked_at has 2, delay has 1"),
        ([1, 2], [np.nan, -1.0], r"delay\[1\] = -1.0: must be at least 0"),
        ([1, 2], [np.inf, 1.0], r"delay\[0\] = inf: must be at least 0"),
    ],
)
def test_what_is_no_stream_is_refused(times, delay, message):
    """ValueError names the column, the row and the rule."""
    with pytest.raises(ValueError, match=message):
        stream_of(times, delay)


def test_the_windows_of_the_paper():
    """24 h that ended an hour ago, and 24 h that ended a week ago."""
    windows, t = ClickWindows(), 100 * DAY

    assert windows.recent(t) == (t - 25 * HOUR, t - HOUR)
    assert windows.mature(t) == (t - 8 * DAY, t - 7 * DAY)
    assert windows.longest == 8 * DAY


def test_other_windows():
    """Each bound comes from its own parameter."""
    windows = ClickWindows(hours=6, post_click=600.0, attribution=2 * DAY)

    assert windows.recent(0.0) == (-6 * HOUR - 600.0, -600.0)
    assert windows.mature(0.0) == (-6 * HOUR - 2 * DAY, -2 * DAY)
    assert windows.longest == 6 * HOUR + 2 * DAY


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hours": 0}, "hours = 0: must be at least 1"),
        ({"post_click": 0.0}, "post_click = 0.0: must be above 0"),
        ({"post_click": np.nan}, "post_click = nan: must be above 0"),
        ({"attribution": 60.0}, "attribution = 60.0: must be at least post_click = 3600.0"),
        ({"attribution": np.inf}, "attribution = inf: must be at least post_click"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    """ValueError with parameter, value and rule."""
    with pytest.raises(ValueError, match=message):
        ClickWindows(**parameters)
