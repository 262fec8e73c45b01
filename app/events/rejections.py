"""What a request brings and is not stored: the first rejections with their errors, the number of
all of them by reason; why the store refused a click event; and the times that events may carry: the
hours a refit can still learn from, and not the future.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from app.events.schema import TYPE_NAMES, Behaviour, Click, Conversion, Time
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.clicks import MOST_BEHAVIOURS, Refusal, StoreRefusal
from app.strict_json import ValidationError

INVALID: Final = "invalid"
UNKNOWN_TYPE: Final = "unknown"
MOST_SHOWN: Final = 100
"""Rejections of one request that are named with their error."""


@dataclass(frozen=True, slots=True)
class EventRejection:
    """One event that is not stored; `reason` is invalid, late, future or full."""

    index: int
    error: str
    event_type: str = UNKNOWN_TYPE
    reason: str = INVALID


_INDEX: Final = attrgetter("index")


class Rejections:
    """Of one request: the `shown`, by index, and the `counts` of all by type and reason.

    Errors cost far more than events: ask `wants` before you look for one.
    """

    def __init__(self) -> None:
        self.shown: list[EventRejection] = []
        self.counts: defaultdict[tuple[str, str], int] = defaultdict(int)

    def __len__(self) -> int:
        """Number of events that are not stored."""
        return sum(self.counts.values())

    def wants(self, index: int) -> bool:
        """Whether the rejection of this event would be shown."""
        return len(self.shown) < MOST_SHOWN or index < self.shown[-1].index

    def add(self, rejection: EventRejection) -> None:
        """One more; it is shown if it is one of the first."""
        self.count(rejection.event_type, rejection.reason)
        if self.wants(rejection.index):
            insort(self.shown, rejection, key=_INDEX)
            del self.shown[MOST_SHOWN:]

    def count(self, event_type: str, reason: str = INVALID) -> None:
        """One more that is not shown."""
        self.counts[event_type, reason] += 1

    def content(self) -> dict[str, Any]:
        """The members of an answer that say what was rejected."""
        if not self.counts:
            return {"rejected": [], "rejected_total": 0, "rejected_by_reason": {}}
        by_reason: defaultdict[str, int] = defaultdict(int)
        for (_, reason), number in self.counts.items():
            by_reason[reason] += number
        listed = [{"index": one.index, "error": one.error} for one in self.shown]
        return {
            "rejected": listed,
            "rejected_total": len(self),
            "rejected_by_reason": dict(sorted(by_reason.items())),
        }


def shown(time: Time) -> float | str:
    """The time as errors show it: as it was sent, but for the form of a date."""
    return time if isinstance(time, float) else time.isoformat()


def iso(seconds: float) -> str:
    """The moment in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


_FIRST_SECOND = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
END_SECOND = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_LAST_SECOND = float(np.nextafter(END_SECOND, 0))


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
            return cls(_hour_of(_FIRST_SECOND), END_SECOND)
        return cls(_hour_of(as_of) - settings.window_hours, END_SECOND)

    def check(self, field: str, time: Time) -> float:
        """Epoch seconds of a time that is not in the future; raises ValidationError or Untimely."""
        seconds = time if isinstance(time, float) else time.timestamp()
        if not _FIRST_SECOND <= seconds < END_SECOND:
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
        latest = min(self.latest, _LAST_SECOND)
        # A comparison with NaN is false: it must not be what lets a time pass.
        in_time = seconds.min(initial=latest) >= _FIRST_SECOND
        if not (in_time and seconds.max(initial=_FIRST_SECOND) <= latest):
            return None
        hours = np.floor_divide(seconds, SECONDS_PER_HOUR).astype(np.int64)
        return hours if hours.min(initial=self.first_hour) >= self.first_hour else None

    def hours_of_few(self, times: Sequence[Time]) -> list[int] | None:
        """The same of few, in either form."""
        seconds: Sequence[Any] = times
        try:
            hours = [int(second // SECONDS_PER_HOUR) for second in seconds]
        except TypeError:
            return self.hours_of_few([t if isinstance(t, float) else t.timestamp() for t in times])
        except ValueError:
            return None  # NaN, which a comparison may overlook
        first = max(_FIRST_SECOND, self.first_hour * SECONDS_PER_HOUR)
        latest = min(self.latest, _LAST_SECOND)
        return hours if first <= min(seconds) and max(seconds) <= latest else None

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


ClickEvent = Click | Behaviour | Conversion

_REASONS = {Refusal.CLOSED: "late", Refusal.AFTERWARDS: "late", Refusal.FULL: "full"}


def rejection_of(event: ClickEvent, refused: StoreRefusal, settings: Settings) -> EventRejection:
    """Why the event is not stored."""
    error = _broken_rule(event, refused, settings)
    return EventRejection(refused.place, str(error), TYPE_NAMES[type(event)], reason_of(refused))


def reason_of(refused: StoreRefusal) -> str:
    """The same as a label of a metric."""
    return _REASONS.get(refused.reason, INVALID)


def _broken_rule(event: ClickEvent, refused: StoreRefusal, settings: Settings) -> ValidationError:
    if refused.reason in (Refusal.CHANGED_FEATURE, Refusal.MANY_FEATURES):
        return _about_feature(event, refused, settings)
    if refused.reason in (Refusal.EARLY, Refusal.AFTERWARDS):
        return _about_time(event, refused, settings)
    return ValidationError("click_id", _rule_of_click(refused.reason, settings), event.click_id)


def _about_feature(event: ClickEvent, refused: StoreRefusal, settings: Settings) -> ValidationError:
    name = refused.detail
    features = event.features if isinstance(event, Click) else None
    value = (features or {}).get(name)
    if refused.reason is Refusal.MANY_FEATURES:
        rule = f"a new name, and {settings.max_features} are known already, the most there may be"
    else:
        kind = "number" if isinstance(value, str) else "string"
        rule = f"must be a {kind}, as it was in earlier clicks"
    return ValidationError(f"features.{name}", rule, value)


def _about_time(event: ClickEvent, refused: StoreRefusal, settings: Settings) -> ValidationError:
    clicked_at = float(refused.detail)
    if refused.reason is Refusal.EARLY:
        rule = f"must not be before its click, which was at {iso(clicked_at)}"
    else:
        end = iso(clicked_at + settings.post_click_seconds)
        rule = f"late, the post-click window of its click ended at {end}"
    return ValidationError("occurred_at", rule, shown(event.occurred_at))


def _rule_of_click(reason: Refusal, settings: Settings) -> str:
    match reason:
        case Refusal.REUSED:
            return "belongs to a click of another campaign"
        case Refusal.CLOSED:
            return "late, the click is closed and gathers no more behaviours"
        case Refusal.FULL:
            most = settings.max_waiting
            return f"full, behaviours wait for {most} unknown clicks already, the most there may be"
        case Refusal.MANY_BEHAVIOURS:
            return f"the click has {MOST_BEHAVIOURS} behaviours already, the most there may be"
        case _:
            return "the click has no score of a delayed target, so it gathers no behaviours"
