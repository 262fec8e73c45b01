"""The event log: a request's events become packed blocks in Redis in one atomic round trip.

Events without ids stand whole in the log of one shard: that of the request's idempotency key, or
the next. Those with ids, and what names a click, have shards of their own. On one server one script
stores all of it or nothing. In a cluster each shard is a part of the request, stored by a script of
its own under the request's idempotency key, or known by its ids: a request that failed half-way is
completed when it is sent again, and is acknowledged once all of it is stored.

Small requests that come in one turn of the event loop are stored by one script (group commit): what
a script costs is paid once for all of them, and each is told what became of its own events.
"""

import time
from asyncio import Future, Task, gather, get_running_loop, sleep, to_thread
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext, suppress
from functools import lru_cache, partial
from itertools import chain, cycle
from typing import Final, NamedTuple, Protocol

import numpy as np
import redis.asyncio
from redis.commands.core import AsyncScript
from redis.exceptions import ResponseError

from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.batch import EventBatch
from app.storage.blocks import NUMBER_BYTES, encode_block
from app.storage.clicks import ClickEvents, ClickRules, Refusal, StoreRefusal
from app.storage.errors import IdempotencyConflict, NotReplicated, StorageUnavailable
from app.storage.event_columns import LogEntry, hash_ids, pack_hashes, pack_ids
from app.storage.ids import IdFilters, IdLife
from app.storage.integrity.damage import is_damage
from app.storage.keys import TargetHour
from app.storage.redis.client import (
    AsyncStore,
    HeldConnections,
    as_bytes,
    lua,
    reaching_the_store,
    refuses_writes,
)
from app.storage.redis.cluster import AsyncClusterRedis

LONGEST_IDEMPOTENCY_KEY = 255

_STORED, _REPLAYED, _CONFLICT, _NAMES_NEEDED = range(4)
_DEFAULT_RULES = ClickRules()
_KNOWN_LOGS: Final = 1024
_PROBE_LIFE: Final = 60
_MANY: Final = 32
"""From so many events on, other requests have a turn between packing and sending them."""

_VERY_MANY: Final = 1000
"""From so many events on, they are packed in a thread."""
_SMALL: Final = 128
"""Up to so many events, a request is stored together with others of its turn."""

_Arguments = list[str | bytes | int]


class Appended(NamedTuple):
    """What became of the events of one batch: they add up to its length.

    Nothing is stored of an event that was refused.
    """

    accepted: int
    duplicates: int
    refused: tuple[StoreRefusal, ...] = ()


class _Part(NamedTuple):
    """What one script stores: keys of the request's record and of a tiny write, blocks, click
    events, and how many events these are."""

    record: str
    probe: str
    entries: Sequence[LogEntry]
    click_events: ClickEvents | None
    events: int = 0


class _Outcome(NamedTuple):
    """The reply of append.lua: status, duplicates, refusals, and of the blocks with ids the numbers
    of those whose filter was not that of the packed ones, and of those with duplicates their rows,
    if these were asked for."""

    status: int
    duplicates: int
    refused: Sequence[tuple[int, int, bytes]]
    unfiltered: Sequence[int] = ()
    repeated: Sequence[tuple[int, Sequence[int]]] = ()


class _Turn:
    """Batches of requests that are stored together, each with who waits for it."""

    def __init__(self, waiting: Sequence[tuple[EventBatch, Future[Appended]]] = ()) -> None:
        self.waiting = [*waiting]
        self.batch = self.waiting[0][0] if waiting else EventBatch()

    def takes(self, batch: EventBatch) -> bool:
        """Whether there is room; of an id that stands in both, the store tells the second."""
        return len(self.batch) + len(batch) < _VERY_MANY and not self.batch.shares_ids(batch)

    def add(self, batch: EventBatch) -> "Future[Appended]":
        """What will have become of it."""
        # Most turns are of one request, which need not be copied.
        if len(self.waiting) == 1:
            alone, self.batch = self.batch, EventBatch()
            self.batch.join(alone)
        if self.waiting:
            self.batch.join(batch)
        else:
            self.batch = batch
        done: Future[Appended] = get_running_loop().create_future()
        self.waiting.append((batch, done))
        return done

    def end(self, found: Mapping[TargetHour, Set[bytes]]) -> None:
        """Tell all of them that they are stored; these ids were duplicates."""
        for batch, done in self.waiting:
            duplicates = batch.repeats + (batch.ids_among(found) if found else 0)
            if not done.done():  # else nobody waits any more
                done.set_result(Appended(len(batch) - duplicates, duplicates))

    def fail(self, error: BaseException) -> None:
        """Tell all of them that nothing is stored."""
        for _, done in self.waiting:
            if not done.done():
                done.set_exception(error)


class EventLog:
    """Where requests append their events. An answer means that they are stored.

    Idempotency keys are kept for `key_seconds`, ids for their `id_life` by `clock`, clicks and
    conversions for `ttl_seconds` after the last that was written; and so are the others where none
    is given.
    """

    def __init__(
        self,
        client: AsyncStore,
        ttl_seconds: int,
        click_rules: ClickRules = _DEFAULT_RULES,
        wait: int = 0,
        wait_seconds: float = 0.0,
        *,
        key_seconds: int | None = None,
        id_life: IdLife | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = client if isinstance(client, AsyncClusterRedis) else None
        self._client = client if isinstance(client, redis.asyncio.Redis) else None
        self._held = None if self._client is None else HeldConnections(self._client)
        self._wait = wait
        self._wait_milliseconds = int(wait_seconds * 1000)
        self._ttl_seconds = ttl_seconds
        self._key_seconds = ttl_seconds if key_seconds is None else key_seconds
        self._id_life = id_life or IdLife(ttl_seconds)
        self._clock = clock
        self._click_rules = click_rules
        self._filters = IdFilters()
        self._append = AsyncScript(self._client or redis.asyncio.Redis(), lua("append"))
        self._shards = cycle(range(keys.SHARDS))
        self._turn: _Turn | None = None
        # The event loop itself knows its tasks by weak references only.
        self._storing: set[Task[Mapping[TargetHour, Set[bytes]]]] = set()

    async def append(
        self, batch: EventBatch, idempotency_key: str | None = None, fingerprint: str = ""
    ) -> Appended:
        """Store the whole batch, or nothing of it; in a cluster perhaps a part where it raises.

        A batch whose idempotency key is known was stored before: all its events are duplicates,
        but for those that were refused then. `fingerprint` says what the request was. Raises
        IdempotencyConflict when the same key came with another fingerprint, ValueError when the key
        is empty or over 255 characters, NotReplicated when fewer than `wait` replicas have it
        within `wait_seconds`, and StorageUnavailable when the store fails. After such a failure the
        outcome is unknown only if the store went away mid-request: send the same key again.
        """
        if idempotency_key is not None and not 0 < len(idempotency_key) <= LONGEST_IDEMPOTENCY_KEY:
            raise ValueError(
                f"an idempotency key has 1 to {LONGEST_IDEMPOTENCY_KEY} characters, "
                f"not {len(idempotency_key)}"
            )
        if not len(batch):
            return Appended(0, 0)
        if idempotency_key is None and self.is_joined(batch):
            return await self.join(batch)
        return await self._stored_alone(batch, idempotency_key, fingerprint)

    def is_joined(self, batch: EventBatch) -> bool:
        """Whether a batch without an idempotency key is stored together with others of its turn."""
        return self._cluster is None and 0 < len(batch) <= _SMALL and batch.may_be_joined

    def join(self, batch: EventBatch) -> "Future[Appended]":
        """What `append` gives for such a batch; it is handed over at once."""
        turn = self._turn
        if turn is None or not turn.takes(batch):
            turn = self._turn = _Turn()
            self._begin(turn)
        return turn.add(batch)

    def _begin(self, turn: _Turn) -> None:
        storing = get_running_loop().create_task(self._store(turn))
        self._storing.add(storing)
        storing.add_done_callback(partial(self._end, turn))

    async def _stored_alone(self, batch: EventBatch, key: str | None, fingerprint: str) -> Appended:
        request = partial(self._request, key=key, fingerprint=fingerprint)
        home, *others = self._parts(batch, key)
        # A key of another request is met before anything is stored.
        outcomes = [await self._stored(home, request)]
        if others:
            found = (self._stored(part, request) for part in others)
            outcomes += _all_or_raise(await gather(*found, return_exceptions=True))
        if any(outcome.status == _CONFLICT for outcome in outcomes):
            raise IdempotencyConflict(key or "")
        refused = [each for outcome in outcomes for each in outcome.refused]
        refusals = await to_thread(_refused, batch, refused) if refused else ()
        if all(outcome.status == _REPLAYED for outcome in outcomes):
            return Appended(0, len(batch) - len(refusals), refusals)
        duplicates = batch.repeats
        for part, outcome in zip((home, *others), outcomes, strict=True):
            replayed = outcome.status == _REPLAYED
            duplicates += part.events - len(outcome.refused) if replayed else outcome.duplicates
        return Appended(len(batch) - duplicates - len(refusals), duplicates, refusals)

    async def _store(self, turn: _Turn) -> Mapping[TargetHour, Set[bytes]]:
        """Stores what has come until the task's first step, after those that were before it in the
        loop; returns the ids that are duplicates."""
        if self._turn is turn:
            self._turn = None
        (part,) = self._parts(turn.batch, None)
        outcome = await self._stored(part, partial(self._request, with_rows=True))
        with_ids = [entry for entry in part.entries if entry.ids]
        return {
            with_ids[number].log: {with_ids[number].ids[row] for row in rows}
            for number, rows in outcome.repeated
        }

    def _end(self, turn: _Turn, storing: "Task[Mapping[TargetHour, Set[bytes]]]") -> None:
        self._storing.discard(storing)
        if self._turn is turn:
            self._turn = None
        if storing.cancelled():
            turn.fail(StorageUnavailable("the service ended meanwhile"))
        elif (failed := storing.exception()) is None:
            turn.end(storing.result())
        elif len(turn.waiting) > 1 and is_damage(failed.__cause__):
            # Nothing is stored, and what is damaged may be of another request.
            for alone in turn.waiting:
                self._begin(_Turn([alone]))
        else:
            turn.fail(failed)

    def _parts(self, batch: EventBatch, key: str | None) -> list[_Part]:
        """On one server all of it; in a cluster by shard, first the one of the key."""
        home = next(self._shards) if key is None else keys.shard_of(key)
        entries, clicks = list(batch.entries(home)), batch.click_events
        if self._cluster is None:
            return [_Part(keys.request(key or ""), keys.PROBE, entries, clicks, len(batch))]
        return list(_parts_by_shard(entries, clicks, key, home))

    async def _stored(self, part: _Part, request: "_Packing") -> _Outcome:
        outcome = await self._sent(part, request)
        if outcome.status == _NAMES_NEEDED:
            outcome = await self._sent(part, partial(request, with_names=True))
        with_ids = [entry for entry in part.entries if entry.ids]
        for number in outcome.unfiltered:
            log, ids = with_ids[number][:2]
            if self._filters.is_due(log, len(ids)):
                await self._read_filter(log)
        return outcome

    async def _read_filter(self, log: TargetHour) -> None:
        """So that Redis need not look for each id of later requests among the packed ones."""

        async def read(client: redis.asyncio.Redis) -> list[bytes | None]:
            found = await client.hmget(log.packed_ids, ["made", "bloom"])
            return [None if one is None else as_bytes(one) for one in found]

        # What was to be stored is stored, whatever becomes of this.
        with suppress(StorageUnavailable), reaching_the_store():
            if self._client is None:
                assert self._cluster is not None
                self._filters.put(log, *await self._cluster.run(log.packed_ids, read))
            else:
                self._filters.put(log, *await read(self._client))

    async def _sent(self, part: _Part, request: "_Packing") -> _Outcome:
        rows = sum(len(entry.block.rows) for entry in part.entries) // NUMBER_BYTES
        if rows >= _VERY_MANY:
            names, arguments = await to_thread(request, part)
        else:
            names, arguments = request(part)
        if rows >= _MANY:
            await sleep(0)
        run = partial(self._replicated if self._wait else self._run, part.probe, names, arguments)
        with reaching_the_store():
            if self._client is None:
                assert self._cluster is not None
                return await self._cluster.run(part.record, run)
            try:
                return await run(self._client)
            except ResponseError as error:
                if refuses_writes(error):
                    await self._client.connection_pool.disconnect(inuse_connections=False)
                    if self._held is not None:
                        await self._held.drop()
                raise

    async def _run(
        self, probe: str, names: list[str], arguments: _Arguments, client: redis.asyncio.Redis
    ) -> _Outcome:
        if self._held is not None and client is self._client:
            return _Outcome(*await self._held.run_script(self._append, names, arguments))
        return _Outcome(*await self._append(names, arguments, client))

    async def _replicated(
        self, probe: str, names: list[str], arguments: _Arguments, client: redis.asyncio.Redis
    ) -> _Outcome:
        """The same, once enough replicas have all that this connection has written."""
        is_one = client.single_connection_client
        async with nullcontext(client) if is_one else client.client() as connection:
            outcome = await self._run(probe, names, arguments, connection)
            if outcome.status == _REPLAYED:
                # Nothing was written now: what was written then comes before this.
                await connection.set(probe, 1, ex=_PROBE_LIFE)
            confirmed = await connection.wait(self._wait, self._wait_milliseconds)
        if confirmed < self._wait:
            raise NotReplicated(confirmed, self._wait)
        return outcome

    def _request(
        self,
        part: _Part,
        *,
        key: str | None = None,
        fingerprint: str = "",
        with_names: bool = False,
        with_rows: bool = False,
    ) -> tuple[list[str], _Arguments]:
        """Keys and arguments of append.lua; with the names of ids if it asks for them."""
        names = [part.record]
        life = 0 if key is None else self._key_seconds
        clicks = self._packed_clicks(part.click_events)
        arguments: _Arguments = [self._ttl_seconds, life, fingerprint, clicks]
        older = [_keys_of(entry.log).older for entry in part.entries if entry.ids]
        names += chain.from_iterable(older)
        arguments += (len(older), int(with_names), len(part.entries), int(with_rows))
        self._add_blocks(part.entries, names, arguments, with_names)
        _add_conversions(part.click_events, names, arguments)
        return names, arguments

    def _add_blocks(
        self, entries: Sequence[LogEntry], names: list[str], arguments: _Arguments, with_names: bool
    ) -> None:
        now = self._clock()
        for log, ids, block, clicks in entries:
            of = _keys_of(log)
            names += of.names
            arguments += (of.member, encode_block(block, of.checksum))
            hashes = hash_ids(ids) if ids else []
            arguments += (_packed(clicks), pack_hashes(hashes)) if ids or clicks else (b"", b"")
            if ids:
                names.append(of.ids)
                life = self._id_life.seconds(log, now)
                arguments += (life, pack_ids(ids) if with_names else b"")
                known = self._filters.of(log)
                suspects = known.suspects(b"".join(hashes)) if known.made else ()
                arguments += (known.made, _packed(suspects))

    def _packed_clicks(self, events: ClickEvents | None) -> bytes:
        if events is None:
            return b""
        hours = self._ttl_seconds // SECONDS_PER_HOUR
        return events.packed(self._click_rules, hours, alone=self._cluster is not None)


class _Packing(Protocol):
    """Keys and arguments of append.lua for a part."""

    def __call__(
        self, part: _Part, *, with_names: bool = False
    ) -> tuple[list[str], _Arguments]: ...


def _parts_by_shard(
    entries: Sequence[LogEntry], click_events: ClickEvents | None, key: str | None, home: int
) -> Iterator[_Part]:
    clicks = {} if click_events is None else click_events.by_shard()
    by_shard: dict[int, list[LogEntry]] = {home: []} if key is not None else {}
    for entry in entries:
        shard = entry.log.shard
        if entry.numbers:
            new = clicks[shard][1]
            entry = entry._replace(numbers=[new[number] for number in entry.numbers])
        by_shard.setdefault(shard, []).append(entry)
    for shard in {**by_shard, **clicks}:
        own, (events, _) = by_shard.get(shard, []), clicks.get(shard, (None, {}))
        record, probe = keys.shard_request(shard, key or ""), keys.probe(f"{shard:02d}")
        number = sum(map(_events_of, own)) + (0 if events is None else len(events))
        yield _Part(record, probe, own, events, number)


def _events_of(entry: LogEntry) -> int:
    """Events of an entry beside those that name a click; the trials of a product are none."""
    if entry.log.target.startswith(keys.product("")):
        return 0
    return len(entry.block.rows) // NUMBER_BYTES - len(entry.numbers)


def _all_or_raise(outcomes: Sequence[_Outcome | BaseException]) -> list[_Outcome]:
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, _Outcome)]


class _LogKeys(NamedTuple):
    """Name of a log, the checksum that its blocks begin with, and the keys that they need."""

    member: str
    checksum: int
    names: tuple[str, ...]
    ids: str
    older: tuple[str, ...]


@lru_cache(_KNOWN_LOGS)
def _keys_of(log: TargetHour) -> _LogKeys:
    names = (log.log, keys.logs(log.shard), keys.hours(log.shard))
    older = (log.seen, log.moved_ids, log.packed_ids)
    return _LogKeys(log.member, log.checksum, names, log.ids, older)


def _add_conversions(events: ClickEvents | None, names: list[str], arguments: _Arguments) -> None:
    if events is None:
        return
    for log, numbers, block in events.conversion_entries():
        names += (log.conversions, keys.conversion_logs(log.shard))
        arguments += (log.member, block, _packed(numbers))


def _packed(numbers: Sequence[int]) -> bytes:
    if not numbers:
        return b""
    return np.array(numbers, "<u4").tobytes()


def _refused(
    batch: EventBatch, refused: Sequence[tuple[int, int, bytes]]
) -> tuple[StoreRefusal, ...]:
    """What the script refused; of a request that is sent again, what is still in the batch."""
    places = set() if batch.click_events is None else batch.click_events.places()
    return tuple(
        StoreRefusal(place, Refusal(reason), detail.decode())
        for place, reason, detail in refused
        if place in places
    )
