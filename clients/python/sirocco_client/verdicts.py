"""What the service's answer to a batch of events means for each of them."""

import json
from dataclasses import dataclass
from typing import Any, Final

import httpx

from sirocco_client.batch import Batch, Event
from sirocco_client.calibrated import refusal
from sirocco_client.messages import Reply
from sirocco_client.retries import Found, unavailable

_TOO_LARGE: Final = 413
_TRY_AGAIN: Final = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class Rejection:
    """An event that the service refused for good, and why."""

    event: Event
    error: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing is left to do: every event is stored, known already, or refused for good."""

    accepted: int
    duplicates: int
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The service takes smaller batches only; nothing was stored."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """It is not known to be stored; `after_seconds` is what the service asks to wait."""

    reason: str
    after_seconds: float = 0.0


Verdict = Settled | TooLarge | TryAgain


def verdict_of(found: Found, batch: Batch) -> Verdict:
    """What a try came to."""
    if isinstance(found, httpx.TransportError):
        return TryAgain(str(unavailable(found, 1)))
    if found.status >= 500 or found.status in _TRY_AGAIN:
        return TryAgain(f"the service answered {found.status}", found.retry_after or 0.0)
    if found.status == _TOO_LARGE and len(batch) > 1:
        return TooLarge()
    if found.status == 200:
        return _stored(found, batch)
    return _refused(found, batch)


def _stored(reply: Reply, batch: Batch) -> Verdict:
    try:
        content = json.loads(reply.body)
        rejections = _rejections(content["rejected"], batch)
        return Settled(int(content["accepted"]), int(content["duplicates"]), rejections)
    except (ValueError, KeyError, TypeError, IndexError):
        # Not the service: to ask again under the same key is safe.
        return TryAgain("the answer cannot be read")


def _refused(reply: Reply, batch: Batch) -> Verdict:
    error = refusal(reply)
    try:
        rejections = _rejections(error.members["rejected"], batch)
    except (KeyError, TypeError, IndexError):
        rejections = tuple(Rejection(event, str(error)) for event in batch.events)
    return Settled(0, 0, rejections)


def _rejections(listed: list[dict[str, Any]], batch: Batch) -> tuple[Rejection, ...]:
    return tuple(
        Rejection(json.loads(batch.lines[one["index"]]), str(one["error"])) for one in listed
    )
