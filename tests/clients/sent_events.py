"""Events as the tests of the buffers send them, and a look at what came of them."""

import time
from typing import Any

from sirocco_client import Buffering
from sirocco_client.events import EventMethods

from tests.api.running_service import RunningService

# The tests wait for conditions: whatever is tried again is tried at once.
EAGER: dict[str, Any] = {"first_pause_seconds": 0.001, "most_pause_seconds": 0.01}


def eager(**options: Any) -> Buffering:
    """Options of a buffer that waits for nothing."""
    return Buffering(**{**EAGER, **options})


def put_outcomes(buffer: EventMethods, number: int, campaign: str = "shoes") -> list[bool]:
    """So many outcomes: events without an id, each of which counts."""
    at = time.time()
    return [buffer.outcome(campaign, "click", 0.25, 1, occurred_at=at) for _ in range(number)]


def stored(service: RunningService) -> int:
    """Outcomes that the service has stored, in the present hour and the one before."""
    hour = int(time.time() // 3600)
    totals = (service.bins("click", each).total() for each in (hour - 1, hour))
    return sum(round(total.total_count) for total in totals)
