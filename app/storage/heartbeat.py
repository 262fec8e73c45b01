"""The worker's sign of life."""

from collections.abc import Mapping
from typing import Any

import orjson
import redis

from app.storage import keys
from app.storage.errors import reaching_the_store


class Heartbeat:
    """What the worker last said of itself; gone when it has been silent for ttl_seconds."""

    def __init__(self, client: redis.Redis, ttl_seconds: int) -> None:
        self._client = client
        self._ttl_seconds = ttl_seconds

    @reaching_the_store()
    def write(self, state: Mapping[str, Any]) -> None:
        """Replace what was said: at (epoch seconds), holder, and whatever JSON holds."""
        self._client.set(keys.HEARTBEAT, orjson.dumps(dict(state)), ex=self._ttl_seconds)

    @reaching_the_store()
    def read(self) -> dict[str, Any] | None:
        """The last state, or None after ttl_seconds of silence."""
        state = self._client.get(keys.HEARTBEAT)
        return None if state is None else orjson.loads(state)
