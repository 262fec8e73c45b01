"""An axis of hours: its labels, and the gaps in what is drawn over it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.reports.scale import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Hours = NDArray[np.int64]

_HOUR: Final = 3600
_DAY: Final = 24
_STEPS: Final = (1, 2, 3, 6, 12, 24, 48, 72, 168, 336, 720, 1440, 2160, 4380, 8760)
_MOST_TICKS: Final = 6


def with_gaps(hours: Hours) -> Hours:
    """The hours in order, and one more wherever some are missing, since no line may cross that."""
    ordered = np.unique(hours)
    steps = np.diff(ordered)
    usual = int(steps.min(initial=_HOUR))
    return np.sort(np.concatenate([ordered, ordered[:-1][steps > usual] + usual]))


def placed(values: ArrayLike, hours: Hours, places: Hours) -> Floats:
    """The values of `hours` at `places`; undefined at the places in a gap."""
    found = np.full(len(places), np.nan)
    found[np.searchsorted(places, hours)] = np.asarray(values, float)
    return found


def set_hours(axes: "Axes", hours: Hours) -> None:
    """Give the horizontal axis these hours since the epoch."""
    first, last = int(hours.min()), int(hours.max())
    step = next((s for s in _STEPS if (last - first) / s < _MOST_TICKS), _STEPS[-1])
    ticks = range(-(-first // step) * step, last + 1, step)
    room = max(0.5, 0.02 * (last - first))
    axes.set_xlim(first - room, last + room)
    axes.set_xticks(ticks, _labels(ticks, step))


def _labels(hours: Sequence[int], step: int) -> list[str]:
    moments = [moment(hour) for hour in hours]
    return [
        f"{at.day} {at:%b}" if step >= _DAY or at.hour == 0 else f"{at:%H:%M}" for at in moments
    ]


def span(hours: Hours) -> str:
    """From when to when, for the name of the axis."""
    return f"{said(int(hours.min()))} to {said(int(hours.max()))} UTC"


def said(hour: int) -> str:
    """An hour since the epoch as people write it."""
    return f"{moment(hour):%Y-%m-%d %H:%M}"


def moment(hour: int) -> datetime:
    """When an hour since the epoch begins."""
    return datetime.fromtimestamp(hour * _HOUR, UTC)
