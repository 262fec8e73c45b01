"""Requests with many events do not hold the event loop from their first to their last step."""

import asyncio
import time
from typing import Any

import orjson
import pytest

from app.api.application import create_app
from app.api.events import PATH, post_events
from app.settings import load_settings
from app.storage.event_log import Appended

HEADERS = [(b"content-type", b"application/json")]


class Recorder:
    """An event log that stores nothing, beside somebody who takes every turn that there is."""

    def __init__(self) -> None:
        self.turns = 0
        self.turns_before_append = -1

    async def append(self, batch: Any, key: str | None, fingerprint: str) -> Appended:
        self.turns_before_append = self.turns
        return Appended(len(batch), 0)

    async def take_turns(self) -> None:
        while self.turns_before_append < 0:
            self.turns += 1
            await asyncio.sleep(0)


def body_of(events: int) -> bytes:
    event = {"type": "impression", "campaign": "shoes", "scores": {"click": 0.1}}
    return orjson.dumps([event | {"occurred_at": time.time()}] * events)


async def turns_of_others(events: int) -> int:
    recorder, body = Recorder(), body_of(events)
    resources = create_app(load_settings(), "redis://127.0.0.1:1").state.resources
    resources.event_log = recorder

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    other = asyncio.create_task(recorder.take_turns())
    scope = {"type": "http", "path": PATH, "query_string": b"", "headers": HEADERS}
    answer = await post_events(scope, receive, resources)
    await other
    assert orjson.loads(answer.body)["accepted"] == events
    return recorder.turns_before_append


@pytest.mark.parametrize(("events", "turns"), [(1, 0), (200, 3)])
def test_others_have_a_turn_after_every_step_that_takes_long(events, turns):
    """After each piece is parsed, and after all are admitted; one event is done at once."""
    assert asyncio.run(turns_of_others(events)) == turns
