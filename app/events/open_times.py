"""The times that events may carry: the hours a refit can still learn from, and not the future."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.events.schema import Time
from app.settings import SECONDS_PER_HOUR, Settings
from app.strict_json import ValidationError

_FIRST_SECOND = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
_END_SECOND = datetime(2100, 1, 1, tzinfo=UTC).timestamp()


class Untimely(ValueError):
    """A well-formed event outside the open times; `reason` is late or future."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class OpenTimes:
    """From the beginning of `first_hour` to the second `latest`, both in epoch time."""

    first_hour: int
    latest: float

    @classmethod
    def at(cls, now: float, settings: Settings) -> Self:
        """Open when it is `now`: the window before, and a little future for clocks that differ."""
        return cls(_hour_of(now) - settings.window_hours, now + settings.future_seconds)

    @classmethod
    def since(cls, as_of: float | None, settings: Settings) -> Self:
        """Open by the time of events: the window before the last refit, and all after it."""
        if as_of is None:
            return cls(_hour_of(_FIRST_SECOND), _END_SECOND)
        return cls(_hour_of(as_of) - settings.window_hours, _END_SECOND)

    def check(self, field: str, time: Time) -> float:
        """Epoch seconds of a time that is not in the future; raises ValidationError or Untimely."""
        seconds = time if isinstance(time, float) else time.timestamp()
        if not _FIRST_SECOND <= seconds < _END_SECOND:
            raise ValidationError(field, "must be in the years 2000 to 2099", shown(time))
        if seconds > self.latest:
            raise Untimely("future", f"{field} = {shown(time)}: future, after {iso(self.latest)}")
        return seconds

    def hour(self, field: str, time: Time) -> int:
        """The hour of an open time; Untimely if its hour is closed already."""
        hour = int(self.check(field, time) // SECONDS_PER_HOUR)
        if hour < self.first_hour:
            raise self._late(field, time, 0.0)
        return hour

    def hours(self, seconds: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """The hours of times (n,) in epoch seconds; None unless `hour` takes each of them."""
        latest = min(self.latest, float(np.nextafter(_END_SECOND, 0)))
        # A comparison with NaN is false: it must not be what lets a time pass.
        in_time = seconds.min(initial=latest) >= _FIRST_SECOND
        if not (in_time and seconds.max(initial=_FIRST_SECOND) <= latest):
            return None
        hours = np.floor_divide(seconds, SECONDS_PER_HOUR).astype(np.int64)
        return hours if hours.min(initial=self.first_hour) >= self.first_hour else None

    def seconds(self, field: str, time: Time, longer: float = 0.0) -> float:
        """Epoch seconds of an open time; Untimely if its hour, plus `longer`, is closed already."""
        seconds = self.check(field, time)
        if _hour_of(seconds + longer) < self.first_hour:
            raise self._late(field, time, longer)
        return seconds

    def _late(self, field: str, time: Time, longer: float) -> Untimely:
        first = iso(self.first_hour * SECONDS_PER_HOUR - longer)
        return Untimely("late", f"{field} = {shown(time)}: late, the window begins at {first}")


def _hour_of(seconds: float) -> int:
    return int(seconds // SECONDS_PER_HOUR)


def shown(time: Time) -> float | str:
    """The time as errors show it: as it was sent, but for the form of a date."""
    return time if isinstance(time, float) else time.isoformat()


def iso(seconds: float) -> str:
    """The moment in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
