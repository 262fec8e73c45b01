"""Version after version of one target, as the worker publishes them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

import redis

from app.storage import LeaseToken, Versions
from benchmarks.store import TIMEOUT_SECONDS, Store

_MUTE = "mute"


@dataclass(frozen=True)
class Publishing:
    """Publishes the packed atlases in turn."""

    store: Store
    packed: Iterator[bytes]
    token: LeaseToken
    client: redis.Redis = field(repr=False)

    @classmethod
    def of(cls, store: Store, packed: Sequence[bytes]) -> "Publishing":
        """By the worker, who sends notices."""
        return cls(store, cycle(packed), store.lease().token, store.client)

    @contextmanager
    def silent(self) -> Iterator["Publishing"]:
        """By a user who may not send notices."""
        self.store.client.acl_setuser(
            _MUTE, enabled=True, nopass=True, keys=["*"], categories=["+@all"], reset_channels=True
        )
        mute = redis.Redis.from_url(
            self.store.url, username=_MUTE, password="", socket_timeout=TIMEOUT_SECONDS
        )
        with mute:
            yield Publishing(self.store, self.packed, self.token, mute)

    def publish(self) -> str:
        """Bring the next into force; returns the version."""
        versions = Versions(self.client, 1)
        return versions.publish(self.token, 0.0, 0.0, {"click": next(self.packed)}, {})
