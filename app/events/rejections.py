"""What a request brings and is not stored: the first rejections with their errors, the number of
all of them by reason; and why the store refused a click event.
"""

from bisect import insort
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from app.events.schema import TYPE_NAMES, Behaviour, Click, Conversion, Time
from app.settings import Settings
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
        self.counts: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """Number of events that are not stored."""
        return self.counts.total()

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
        by_reason: Counter[str] = Counter()
        for (_, reason), number in self.counts.items():
            by_reason[reason] += number
        listed = [{"index": one.index, "error": one.error} for one in self.shown]
        return {
            "rejected": listed,
            "rejected_total": by_reason.total(),
            "rejected_by_reason": dict(sorted(by_reason.items())),
        }


def shown(time: Time) -> float | str:
    """The time as errors show it: as it was sent, but for the form of a date."""
    return time if isinstance(time, float) else time.isoformat()


def iso(seconds: float) -> str:
    """The moment in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


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
