"""What is wrong with the Redis server itself, and how long events wait in it to be folded.

Dangers are looked for at start, where the unsafe ones are refused, and every ten seconds from then
on: a server may be demoted, filled up or configured anew under a service that runs. Nothing here is
called by a request.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import redis
from redis.exceptions import ResponseError

from app.settings import Settings
from app.storage import keys
from app.storage.errors import MasterUnreplicated, StorageUnavailable
from app.storage.integrity.damage import is_damage
from app.storage.integrity.inspection import Inspection
from app.storage.keys import TargetHour, logs_named
from app.storage.redis.client import (
    drop_connections,
    reaching_the_store,
    refuses_writes,
    servers_of,
    shards_by_master,
    wait_for_replicas,
)
from app.storage.redis.cluster import ClusterRedis

_log = logging.getLogger(__name__)


class StoreDanger(StrEnum):
    """As `/readyz` names it."""

    REPLICA = "store-replica"
    CLUSTER = "store-cluster"
    UNCOVERED = "store-uncovered"
    EVICTS = "store-evicts"
    VOLATILE = "store-volatile"
    NEARLY_FULL = "store-nearly-full"


UNSAFE: Final = {
    StoreDanger.REPLICA: "this Redis server is a replica, which takes no writes: name its master",
    StoreDanger.CLUSTER: "this Redis server is a node of a cluster: name some of its nodes by"
    " redis+cluster://host:port,host:port",
    StoreDanger.UNCOVERED: "this Redis cluster has slots that no master serves",
    StoreDanger.EVICTS: "this Redis server evicts keys when it is full, and an evicted hour or"
    " version is lost: set maxmemory-policy to noeviction",
}
"""What a service does not start with, and why."""

_FULL: Final = 0.9
_TELL_SECONDS: Final = 60.0
_KNOWN: Final = {
    "role": "its role",
    # Valkey has another name for the mode.
    "cluster_enabled": "whether it is in a cluster",
    "maxmemory_policy": "its eviction policy",
    "aof_enabled": "its persistence",
}


class Outage:
    """Logs that a store is away when it goes and once a minute, and in the end for how long."""

    def __init__(
        self, store: str = "the store", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._clock = store, clock
        self._begun: float | None = None
        self._told = 0.0

    def tell(self, error: Exception) -> None:
        """It does not answer, or refuses."""
        now = self._clock()
        if self._begun is None or now - self._told >= _TELL_SECONDS:
            _log.warning("%s; trying again", error)
            self._told = now
        self._begun = now if self._begun is None else self._begun

    def end(self) -> None:
        """It has done what was asked."""
        if self._begun is not None:
            _log.warning("%s is back after %.0f s", self._store, self._clock() - self._begun)
            self._begun = None


class StoreCondition:
    """What the server says of itself; what it does not say is unknown, and no danger."""

    def __init__(
        self, info: Mapping[str, Any], appendfsync: str | None, of_cluster: bool = False
    ) -> None:
        self._info = info
        self._appendfsync = appendfsync
        self._of_cluster = of_cluster

    @classmethod
    @reaching_the_store()
    def of(cls, client: redis.Redis, *, of_cluster: bool = False) -> "StoreCondition":
        """Managed servers may deny either command; raises StorageUnavailable."""
        try:
            info = client.info()
        except ResponseError:
            info = {}
        try:
            appendfsync = client.config_get("appendfsync").get("appendfsync")
        except ResponseError:
            appendfsync = None
        return cls(info, appendfsync, of_cluster)

    @property
    def unknown(self) -> list[str]:
        """What the server does not say."""
        return [text for field, text in _KNOWN.items() if field not in self._info]

    def dangers(self, *, allow_volatile: bool = False) -> tuple[StoreDanger, ...]:
        """All that is known to be wrong."""
        info = self._info
        policy, limit = info.get("maxmemory_policy", "noeviction"), info.get("maxmemory", 0)
        persists = info.get("aof_enabled", 1) == 1 and self._appendfsync != "no"
        found = {
            StoreDanger.REPLICA: info.get("role") == "slave",
            StoreDanger.CLUSTER: info.get("cluster_enabled") == 1 and not self._of_cluster,
            StoreDanger.EVICTS: policy != "noeviction",
            StoreDanger.VOLATILE: not (persists or allow_volatile),
            StoreDanger.NEARLY_FULL: limit > 0 and info.get("used_memory", 0) > _FULL * limit,
        }
        return tuple(danger for danger, is_there in found.items() if is_there)


def store_dangers(
    client: redis.Redis, *, allow_volatile: bool = False
) -> tuple[tuple[StoreDanger, ...], list[str]]:
    """All that is known to be wrong with any of the masters, and what they do not say; raises
    StorageUnavailable."""
    with reaching_the_store():
        servers = servers_of(client)
    is_cluster = isinstance(client, ClusterRedis)
    uncovered = isinstance(client, ClusterRedis) and not client.slots.is_whole
    conditions = [StoreCondition.of(server, of_cluster=is_cluster) for server in servers]
    found = {danger for one in conditions for danger in one.dangers(allow_volatile=allow_volatile)}
    found |= {StoreDanger.UNCOVERED} if uncovered else set()
    unknown = {text for one in conditions for text in one.unknown}
    return tuple(danger for danger in StoreDanger if danger in found), sorted(unknown)


_PAUSE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0


class StoreWatch:
    """Looks at the server every ten seconds, and every second while it takes no writes.

    `writable` says whether the last write, a request's or a tiny one of its own, was stored (by
    `wait` replicas, too, within `wait_seconds`: else it is `unreplicated`). `fold_seconds` is how
    often logs are folded.
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        allow_volatile: bool = False,
        wait: int = 0,
        wait_seconds: float = 0.0,
        fold_seconds: float = 0.0,
        post_click_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.writable, self.unreplicated = True, False
        self.dangers: tuple[StoreDanger, ...] = ()
        self.unfolded = UnfoldedHours(client, max(_PAUSE_SECONDS, 2 * fold_seconds))
        self._client = client
        # Events are stored by scripts, which a user of Redis may not be allowed to run.
        self._script = client.register_script("return 1")
        self._allow_volatile = allow_volatile
        self._wait = wait
        self._wait_milliseconds = int(wait_seconds * 1000)
        self._clock = clock
        self._due = clock()
        self._inspection = Inspection(client, post_click_seconds)
        self._met_damage = False
        self._refusal = ""
        self._said: object = None

    @classmethod
    def of(cls, settings: Settings, client: redis.Redis) -> "StoreWatch":
        """The watch of these settings."""
        return cls(
            client,
            allow_volatile=settings.allow_volatile_store,
            wait=settings.redis_wait,
            wait_seconds=settings.redis_wait_seconds,
            fold_seconds=settings.fold_seconds,
            post_click_seconds=settings.post_click_seconds,
        )

    def write_failed(self, error: StorageUnavailable) -> None:
        """A request's write was not stored: look at once."""
        # Our own may be stored where another command is not allowed.
        if self.writable and str(error) != self._refusal:
            self._refusal = str(error)
            _log.warning("events were not stored: %s", error)
        self.writable, self._due = False, self._clock()
        self.failed(error)

    def failed(self, error: StorageUnavailable) -> None:
        """Where a command has met what is damaged, the next look inspects all keys."""
        if is_damage(error.__cause__):
            self._met_damage, self._due = True, self._clock()

    def mend(self) -> None:
        """Inspect, if damage was met; raises StorageUnavailable."""
        if self._met_damage:
            self._inspection.run()
            self._met_damage = False

    def look(self) -> None:
        """Look if it is time; never raises. For one thread."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _RETRY_SECONDS
        try:
            self.mend()
            self._write()
        except StorageUnavailable as error:
            self._refused(error)
        try:
            found, unknown = store_dangers(self._client, allow_volatile=self._allow_volatile)
            self.unfolded.look(now)
        except StorageUnavailable:
            return
        self.dangers = found
        self._say(unknown)
        if StoreDanger.REPLICA in self.dangers:
            drop_connections(self._client)
        elif self.writable:
            self._due = now + _PAUSE_SECONDS

    def _write(self) -> None:
        with reaching_the_store():
            for server, own in shards_by_master(self._client, range(keys.SHARDS)).items():
                self._script(client=server)
                wait_for_replicas(server, own, self._wait, self._wait_milliseconds)
        self.writable, self.unreplicated = True, False

    def _refused(self, error: StorageUnavailable) -> None:
        if self.writable:
            _log.warning("the store takes no writes: %s", error)
        self.writable, self.unreplicated = False, isinstance(error, MasterUnreplicated)
        if refuses_writes(error.__cause__):
            drop_connections(self._client)

    def _say(self, unknown: list[str]) -> None:
        if (self.dangers, unknown) == self._said:
            return
        self._said = self.dangers, unknown
        if unknown:
            _log.info("the store does not say %s: unknown", ", ".join(unknown))
        if self.dangers:
            _log.warning("the store is in danger: %s", ", ".join(self.dangers))


class UnfoldedHours:
    """Hours with events that nobody has folded for `patience` seconds.

    A log that was folded between two looks is not behind, though it may hold events again.
    """

    def __init__(self, client: redis.Redis, patience: float) -> None:
        self.oldest: int | None = None
        self._client = client
        self._patience = patience
        self._since: dict[tuple[TargetHour, bytes | None], float] = {}

    def look(self, now: float) -> None:
        """Look at all logs; raises StorageUnavailable."""
        with reaching_the_store():
            found = list(self._open_logs())
        self._since = {state: self._since.get(state, now) for state in found}
        behind = [log.hour for (log, _), at in self._since.items() if now - at >= self._patience]
        self.oldest = min(behind, default=None)

    def age(self, now: float) -> float:
        """Seconds since the end of the oldest of them, at epoch seconds; 0 where there is none."""
        return 0.0 if self.oldest is None else max(0.0, now - (self.oldest + 1) * 3600.0)

    def _open_logs(self) -> Iterator[tuple[TargetHour, bytes | None]]:
        """Each with the mark of how far it is folded, which moves with every fold."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.smembers(keys.logs(shard))
        members = pipeline.execute(raise_on_error=False)
        sets = [each if isinstance(each, set) else () for each in members]
        logs = [log for shard, each in enumerate(sets) for log in logs_named(shard, each)]
        for log in logs:
            pipeline.get(log.folding)
        marks = pipeline.execute(raise_on_error=False)
        yield from zip(logs, (m if isinstance(m, bytes) else None for m in marks), strict=True)
