"""Notices of new versions, by publish and subscribe: hints that spare a poll, and no more."""

import threading
import time
from typing import Final

import redis
from redis.client import PubSub
from redis.exceptions import RedisError

from app.storage import keys

_SUBSCRIBE_SECONDS: Final = 1.0
_LONGEST_LOOK: Final = 0.25


class Notices:
    """Waits for the next notice or for a time to pass, whichever comes first.

    A notice may be missed, while the connection is lost for one, so the caller looks for itself
    after every wait. No failure is raised: a lost connection is opened again at the next wait.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._subscribed: PubSub | None = None
        self._closing = threading.Event()

    def wait(self, seconds: float) -> None:
        """Returns at a notice, after so many seconds, or soon after `close`.

        Returns at once when it has just subscribed: what was published before was not told.
        """
        deadline = time.monotonic() + seconds
        try:
            if self._subscribed is None:
                self._subscribed = self._subscribe()
            else:
                self._listen(self._subscribed, deadline)
        except (RedisError, OSError):
            self.release()
            self._closing.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Ends the wait of another thread."""
        self._closing.set()

    def release(self) -> None:
        """Gives the connection back; for the thread that waits."""
        if self._subscribed is not None:
            self._subscribed.close()
            self._subscribed = None

    def _subscribe(self) -> PubSub:
        subscribed: PubSub = self._client.pubsub()  # type: ignore[no-untyped-call]
        subscribed.subscribe(keys.PUBLISHED)
        if subscribed.get_message(timeout=_SUBSCRIBE_SECONDS) is None:
            subscribed.close()
            raise redis.TimeoutError("no answer to SUBSCRIBE")
        return subscribed

    def _listen(self, subscribed: PubSub, deadline: float) -> None:
        """Looks are short, so that a close is seen soon."""
        while (left := deadline - time.monotonic()) > 0 and not self._closing.is_set():
            message = subscribed.get_message(timeout=min(left, _LONGEST_LOOK))
            if message is not None and message["type"] == "message":
                return
