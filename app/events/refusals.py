"""What the store refused, told as every other rejection: field, value and rule."""

from app.events.open_times import iso, shown
from app.events.parsing import INVALID, Rejection
from app.events.schema import TYPE_NAMES, Behaviour, Click, Conversion
from app.settings import Settings
from app.storage.click_events import MOST_BEHAVIOURS, Refusal, Refused
from app.strict_json import BrokenRule

ClickEvent = Click | Behaviour | Conversion

_REASONS = {Refusal.CLOSED: "late", Refusal.AFTERWARDS: "late", Refusal.FULL: "full"}


def rejection_of(event: ClickEvent, refused: Refused, settings: Settings) -> Rejection:
    """Why the event is not stored, in words and as a label of a metric."""
    error = _broken_rule(event, refused, settings)
    reason = _REASONS.get(refused.reason, INVALID)
    return Rejection(refused.place, str(error), TYPE_NAMES[type(event)], reason)


def _broken_rule(event: ClickEvent, refused: Refused, settings: Settings) -> BrokenRule:
    if refused.reason in (Refusal.CHANGED_FEATURE, Refusal.MANY_FEATURES):
        return _about_feature(event, refused, settings)
    if refused.reason in (Refusal.EARLY, Refusal.AFTERWARDS):
        return _about_time(event, refused, settings)
    return BrokenRule("click_id", _rule_of_click(refused.reason, settings), event.click_id)


def _about_feature(event: ClickEvent, refused: Refused, settings: Settings) -> BrokenRule:
    name = refused.detail
    features = event.features if isinstance(event, Click) else None
    value = (features or {}).get(name)
    if refused.reason is Refusal.MANY_FEATURES:
        rule = f"a new name, and {settings.max_features} are known already, the most there may be"
    else:
        kind = "number" if isinstance(value, str) else "string"
        rule = f"must be a {kind}, as it was in earlier clicks"
    return BrokenRule(f"features.{name}", rule, value)


def _about_time(event: ClickEvent, refused: Refused, settings: Settings) -> BrokenRule:
    clicked_at = float(refused.detail)
    if refused.reason is Refusal.EARLY:
        rule = f"must not be before its click, which was at {iso(clicked_at)}"
    else:
        end = iso(clicked_at + settings.post_click_seconds)
        rule = f"late, the post-click window of its click ended at {end}"
    return BrokenRule("occurred_at", rule, shown(event.occurred_at))


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
