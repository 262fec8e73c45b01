"""Events as trackers send them."""

import json
from typing import Any

HOUR_SECONDS = 3600


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


def lines(*events: Any) -> bytes:
    """One JSON object per line."""
    return b"\n".join(json.dumps(event).encode() for event in events)
