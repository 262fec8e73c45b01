"""Events as trackers send them."""

import json
from typing import Any

HOUR_SECONDS = 3600
NONE_REJECTED: dict[str, Any] = {"rejected": [], "rejected_total": 0, "rejected_by_reason": {}}


def impression(at: object, campaign: str = "shoes", score: float = 0.25, **more: Any) -> Any:
    """An impression with a score for clicks."""
    scores = {"click": score}
    base = {"type": "impression", "campaign": campaign, "occurred_at": at, "scores": scores}
    return {**base, **more}


def click(
    at: object, click_id: str, campaign: str = "shoes", score: float = 0.25, **more: Any
) -> Any:
    """A click on an impression of the same moment."""
    times = {"occurred_at": at, "impression_at": at}
    base = {"type": "click", "click_id": click_id, "campaign": campaign, **times}
    return {**base, "scores": {"click": score}, **more}


def outcome(at: object, campaign: str = "shoes", score: float = 0.25, **more: Any) -> Any:
    """A score and that it came true."""
    base = {"type": "outcome", "campaign": campaign, "target": "click", "occurred_at": at}
    return {**base, "score": score, "outcome": 1, **more}


def delayed_click(at: object, click_id: str, **more: Any) -> Any:
    """A click that gathers behaviours: it has a score for conversions too."""
    scores = {"click": 0.25, "conversion": 0.125}
    return click(at, click_id, **{"scores": scores, **more})


def behaviour(at: object, click_id: str, name: str = "page_views", value: object = 1) -> Any:
    """What was done after a click."""
    named = {"type": "behaviour", "click_id": click_id, "occurred_at": at}
    return {**named, "name": name, "value": value}


def conversion(at: object, click_id: str, **more: Any) -> Any:
    """A click converted."""
    return {"type": "conversion", "click_id": click_id, "occurred_at": at, **more}


def lines(*events: Any) -> bytes:
    """One JSON object per line."""
    return b"\n".join(json.dumps(event).encode() for event in events)
