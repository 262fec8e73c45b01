"""Client of sirocco: calibrate over HTTP or in your own process, and send events.

`client.py` has `Sirocco` and `AsyncSirocco`; `calibrate.py` has the request and its response,
`connections.py`, `requests.py` and `retries.py` are how they travel. `event_buffer.py` sends the
events of `events.py` by way of an `event_queue.py`, from a thread or for asyncio.
`edge_calibrator.py` keeps an `atlas.py` current (and in a file), and calibrates in this
process: `maps.py` has the look-up, and `_look_up.c` the same compiled (`COMPILED` says whether it
was); `fields.py` has the effects of fields, `arms.py` tells the arm of a unit.
Every error is in `errors.py`.
"""

from sirocco_client.calibrate import Calibrated
from sirocco_client.client import AsyncSirocco, Sirocco
from sirocco_client.edge_calibrator import EdgeCalibrator, EdgeCounts
from sirocco_client.errors import (
    BadAnswer,
    BadAtlas,
    BadInput,
    BufferFull,
    Closed,
    NoAtlas,
    Refused,
    SiroccoError,
    TimedOut,
    Unavailable,
)
from sirocco_client.event_buffer import AsyncEventBuffer, EventBuffer
from sirocco_client.event_queue import Buffering, EventCounts, Rejection
from sirocco_client.events import Batch
from sirocco_client.maps import COMPILED

__all__ = [
    "COMPILED",
    "AsyncEventBuffer",
    "AsyncSirocco",
    "BadAnswer",
    "BadAtlas",
    "BadInput",
    "Batch",
    "BufferFull",
    "Buffering",
    "Calibrated",
    "Closed",
    "EdgeCalibrator",
    "EdgeCounts",
    "EventBuffer",
    "EventCounts",
    "NoAtlas",
    "Refused",
    "Rejection",
    "Sirocco",
    "SiroccoError",
    "TimedOut",
    "Unavailable",
]
