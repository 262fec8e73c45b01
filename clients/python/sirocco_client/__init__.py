"""Client of the sirocco calibration service: remote calls, and maps looked up in your own process.

`Sirocco` and `AsyncSirocco` turn scores into probabilities over HTTP and send events;
`EdgeCalibrator` holds the maps itself. Every error is a `SiroccoError`.
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

__all__ = [
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
