"""Which clicks a refit of a delayed target learns from."""

import numpy as np
import pytest

from evaluation import ClickWindows

HOUR, DAY = 3600.0, 86_400.0


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
