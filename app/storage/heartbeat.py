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
        """The last state, or None after ttl_seconds of silence, and for what is no state."""
        return _state_of(self._client.get(keys.HEARTBEAT))


def _state_of(data: bytes | str | None) -> dict[str, Any] | None:
    try:
        state = None if data is None else orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    is_state = isinstance(state, dict) and isinstance(state.get("at"), int | float)
    return state if is_state else None
