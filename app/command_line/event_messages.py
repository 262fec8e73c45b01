"""Events of a table as the systems of an ad platform send them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from evaluation import EventTable

Message = dict[str, Any]
Messages = Callable[[EventTable, str], list[Message]]


def outcomes(events: EventTable, target: str) -> list[Message]:
    """One `outcome` per event: a platform that joins impressions and clicks itself."""
    return [
        {
            "type": "outcome",
            "campaign": campaign,
            "target": target,
            "occurred_at": time,
            "score": score,
            "outcome": outcome,
        }
        for campaign, time, score, outcome in _rows(events)
    ]


def impressions_and_clicks(events: EventTable, target: str) -> list[Message]:
    """What an ad server logs for every impression, then what a tracker sends for every click."""
    return [*_impressions(events, target), *_clicks(events, target)]


def _impressions(events: EventTable, target: str) -> Iterator[Message]:
    for campaign, time, score, _ in _rows(events):
        yield {
            "type": "impression",
            "campaign": campaign,
            "occurred_at": time,
            "scores": {target: score},
        }


def _clicks(events: EventTable, target: str) -> Iterator[Message]:
    clicked = events.select(np.flatnonzero(events.outcomes))
    for number, (campaign, time, score, _) in enumerate(_rows(clicked)):
        yield {
            "type": "click",
            "click_id": f"{time:.6f}-{number}",
            "campaign": campaign,
            "occurred_at": time,
            "impression_at": time,
            "scores": {target: score},
        }


def _rows(events: EventTable) -> Iterator[tuple[str, float, float, float]]:
    campaigns = (events.campaigns[row] for row in events.rows.tolist())
    columns = (events.times, events.scores, events.outcomes)
    return zip(campaigns, *(column.tolist() for column in columns), strict=True)
