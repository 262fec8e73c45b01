"""No request holds the event loop for long: its longest stall, in CPU time of its thread, while the
worst requests within the default limits are answered.
"""

import asyncio
import gc
import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from starlette.types import Receive, Scope, Send

from tests.api.events import delayed_click, impression
from tests.api.running_service import RunningService, eventually

MOST_SECONDS = 0.005
MOST_EVENTS = 50_000
MOST_BYTES = 8 * 1024 * 1024
PACKED = {"Content-Encoding": "gzip"}
EVENTS, CALIBRATE = "/v1/events", "/v1/calibrate"


class Watchdog:
    """Has a turn in every round of the loop, from the first request of the framework on."""

    def __init__(self, framework: Any) -> None:
        self.stalls: list[float] = []
        self.running = True
        self._framework = framework
        self._last = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._last:
            self._last = time.thread_time()
            self._look(asyncio.get_running_loop())
        await self._framework(scope, receive, send)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.thread_time()
        self.stalls.append(now - self._last)
        self._last = now
        if self.running:
            loop.call_soon(self._look, loop)


@contextmanager
def watched(service: RunningService) -> Iterator[Watchdog]:
    framework, watchdog = service.app.framework, Watchdog(service.app.framework)
    service.app.framework = watchdog  # type: ignore[assignment]
    # What the tests before have left is no request's fault.
    gc.collect()
    gc.freeze()
    try:
        service.http.get("/healthz")
        service.http.post(EVENTS, json=[{}])
        watchdog.stalls.clear()
        yield watchdog
    finally:
        watchdog.running, service.app.framework = False, framework
        gc.unfreeze()


def array(events: list[Any]) -> bytes:
    return json.dumps(events).encode()


def lines(events: list[Any]) -> bytes:
    return b"\n".join(json.dumps(event).encode() for event in events)


def spread(make: Any, **more: Any) -> list[Any]:
    return [
        make(time.time(), f"campaign-{place % 500}", place % 97 / 97, **more)
        for place in range(MOST_EVENTS)
    ]


def with_ids() -> bytes:
    return array(
        [{**one, "id": f"impression-{place}"} for place, one in enumerate(spread(impression))]
    )


def clicks() -> bytes:
    events = [delayed_click(time.time(), f"click-{place}") for place in range(5_000)]
    return array(events)


def scores(bad: bool) -> bytes:
    names = [f"campaign-{place % 500}" for place in range(MOST_EVENTS)]
    values = np.random.default_rng(7).random(MOST_EVENTS).tolist()
    if bad:
        values[-1] = 2.0
    return json.dumps({"target": "click", "campaigns": names, "scores": values}).encode()


def rows(number: int, score: float) -> bytes:
    row = {"target": "click", "campaign": "a", "score": score}
    return json.dumps({"rows": [row] * number}).encode()


WORST = {
    "a bomb of events that are none": (EVENTS, lambda: gzip.compress(array([1] * 50_000)), PACKED),
    "a bomb of zeros": (EVENTS, lambda: gzip.compress(bytes(4 * MOST_BYTES)), PACKED),
    "8 MB of numbers": (EVENTS, lambda: array([1] * (MOST_BYTES // 3 - 1)), {}),
    "8 MB of one string": (EVENTS, lambda: array(["a" * (MOST_BYTES - 9)]), {}),
    "8 MB of arrays": (EVENTS, lambda: b"[" * MOST_BYTES, {}),
    "8 MB of commas": (EVENTS, lambda: b"[" + b"," * (MOST_BYTES - 1), {}),
    "broken events": (EVENTS, lambda: array([{"type": "click"}] * MOST_EVENTS), {}),
    "broken lines": (EVENTS, lambda: b"{}\n" * MOST_EVENTS, {}),
    "late events": (EVENTS, lambda: array([impression(1e9)] * MOST_EVENTS), {}),
    "good impressions": (EVENTS, with_ids, {"Idempotency-Key": "a"}),
    "clicks": (EVENTS, clicks, {}),
    "scores": (CALIBRATE, lambda: scores(bad=False), {}),
    "bad scores": (CALIBRATE, lambda: scores(bad=True), {}),
    "rows": (CALIBRATE, lambda: rows(5_000, 0.5), {}),
    "bad rows": (CALIBRATE, lambda: rows(5_000, 2.0), {}),
    "scores that are none": (CALIBRATE, lambda: b'{"scores":' + array([1] * 80_000) + b",}", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body", "headers"), WORST.values(), ids=WORST)
def test_no_request_holds_the_loop(shared_service, path, body, headers):
    """A stall of our making is there each time: the best of ten is not the machine's."""
    body = body()
    longest = []
    shedder = shared_service.app.state.resources.shedder
    for _ in range(10):
        # The request before may have left the loop behind.
        eventually(lambda: max(shedder._before, shedder._earlier) < MOST_SECONDS)
        with watched(shared_service) as watchdog:
            answer = shared_service.http.post(path, content=body, headers=headers)
        longest.append(max(watchdog.stalls))
        if longest[-1] < MOST_SECONDS:
            break

    assert answer.status_code in (200, 400, 413, 422)
    assert len(answer.content) < (MOST_BYTES if path == CALIBRATE else 32 * 1024)
    assert min(longest) < MOST_SECONDS
