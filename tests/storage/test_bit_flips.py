"""One flipped bit anywhere in what real traffic has stored: it is noticed, or changes nothing."""

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from app.storage import keys
from app.storage.bins import BinsStore, EvidenceStore
from app.storage.clicks import OpenClick, OpenClicks, click_fields, click_of
from app.storage.conversions import ConversionLog
from app.storage.errors import StorageError
from app.storage.integrity.damage import Damage
from app.storage.integrity.inspection import TYPES
from app.storage.jobs import Jobs
from app.storage.keys import BREAKDOWNS, TargetHour
from app.storage.lease import Heartbeat, JointRefits, Lease
from app.storage.models import Models
from app.storage.overrides import FrozenTargets, Overrides
from app.storage.redis.client import open_redis
from app.storage.statistics.breakdowns import UnitDays
from app.storage.statistics.folding import Folding
from app.storage.versions import Versions
from calibrators.peers import NotDivided
from tests.conftest import redis_binary  # noqa: F401 - one server is enough: it reads no bits
from tests.storage.contents import contents
from tests.storage.stored_traffic import put, store_traffic

UNSEEN = {
    "ids:": "ids of events: a repeat of one may count again",
    "ids_packed:": "the same of those that are packed",
    "clicked:": "ids of clicks: the same",
    "converted:": "ids of conversions: the same",
    "request:": "a repeat under its key may be refused",
    "features": "names: one more may be known",
    "clicks": "counters of metrics",
    "damage": "counters of metrics",
    "sequence": "a counter: goes on behind the versions that are kept",
    "freezes": "a counter: a refit that began before begins anew",
    "fence:": "a counter: tokens differ by their holders",
    "models": "a counter: models are told apart by their digest",
    "jobs:sequence": "a counter: ids that are taken are passed over",
    "training:": "a counter of attempts",
    "probe": "no content",
}
"""Kinds of which formats.md says what goes unnoticed; and the scores of sorted sets."""


READ_WHOLE = {"log:", "folding:", "open", "waiting", "click:", "logs", "conversion_logs", "hours"}
"""Kinds that are read, and mended, in all shards together."""


COPY = """
local function all(db) redis.call('SELECT', db) return redis.call('KEYS', ARGV[1]) end
for _, key in ipairs(all(ARGV[3])) do redis.call('DEL', key) end
for _, key in ipairs(all(ARGV[2])) do redis.call('COPY', key, key, 'DB', ARGV[3]) end
"""
"""Makes the keys of a pattern in one database what they are in another."""


@dataclass(frozen=True)
class Place:
    """A part of what a key holds: member or field, and value of a field."""

    key: bytes
    part: Any
    is_value: bool = False

    @property
    def kind(self) -> str:
        rest = self.key.decode().split("}:", 1)[1]
        return rest if rest in TYPES else rest.partition(":")[0] + ":"


@dataclass
class World:
    """A store and what it holds while nothing is damaged."""

    client: redis.Redis
    held: dict[bytes, Any]
    errors: list[str] = field(default_factory=list)

    def places(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for key, held in self.held.items():
            for place in _parts(key, held):
                found.setdefault(place.kind, []).append(place)
        return found

    def flip(self, place: Place, draw: random.Random) -> None:
        held = self.held[place.key]
        put(self.client, place.key, _flipped(held, place, draw))

    def mend(self, key: bytes) -> None:
        whole = Place(key, 0).kind in READ_WHOLE
        slots = (b"sirocco:",) if whole else (key.partition(b"}")[0] + b"}", b"sirocco:{maps}")
        for slot in slots:
            self.client.eval(COPY, 0, slot + b"*", 1, 0)

    def noticed(self) -> bool:
        return bool(self.errors) or bool(Damage(self.client).counts())


def _parts(key: bytes, held: Any) -> Iterator[Place]:
    match held:
        case bytes():
            yield Place(key, held)
        case dict():
            yield from (Place(key, name) for name in held)
            yield from (Place(key, name, True) for name, value in held.items() if value)
        case set():
            yield from (Place(key, member) for member in held)
        case list():
            yield from (Place(key, at) for at in range(len(held)))


def _flipped(held: Any, place: Place, draw: random.Random) -> Any:
    def bit(data: bytes) -> bytes:
        at = draw.randrange(8 * len(data))
        return data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]

    match held:
        case bytes():
            return bit(held)
        case dict() if place.is_value:
            return {**held, place.part: bit(held[place.part])}
        case dict():
            return {(bit(name) if name == place.part else name): held[name] for name in held}
        case set():
            return {bit(member) if member == place.part else member for member in held}
    one = held[place.part]
    new = (bit(one[0]), one[1]) if isinstance(one, tuple) else bit(one)
    return [*held[: place.part], new, *held[place.part + 1 :]]


def _log(key: bytes) -> TargetHour:
    slot, _, rest = key.decode().removeprefix("sirocco:{").partition("}:")
    _, hour, target = rest.split(":")
    return TargetHour(int(slot), target, int(hour))


def _folded(client: redis.Redis, key: bytes) -> Any:
    log = _log(key)
    Folding(client, 3600, 1 << 20).fold([log.shard])
    return BinsStore(client, 3600).window(log.target, log.hour, log.hour + 1).to_bytes()


def _tables(client: redis.Redis, key: bytes, calibrated: bool) -> Any:
    log = _log(key)
    tables = BinsStore(client, 3600).shards_of_hour(log.target, log.hour, calibrated=calibrated)
    return [table.to_bytes() for table in tables]


def _bins(client: redis.Redis, key: bytes) -> Any:
    log, store = _log(key), BinsStore(client, 3600)
    breakdowns = [store.breakdown(log.target, n, log.hour, log.hour + 1) for n in BREAKDOWNS]
    return _tables(client, key, False), [[one.to_bytes() for one in found] for found in breakdowns]


def _click(client: redis.Redis, key: bytes) -> Any:
    held = client.hgetall(key)
    if b"campaign" in held or b"sum" in held:
        return _due(client, key)
    click_id = key.decode().split(":click:", 1)[1]
    own = click_fields(OpenClick(click_id, "a", 1.0), "1.0")
    return click_of(click_id, [*map(str.encode, own), *(b for pair in held.items() for b in pair)])


def _due(client: redis.Redis, _: bytes) -> Any:
    due = OpenClicks(client).begin_close(float("inf"), 1000)
    return sorted(due, key=lambda click: click.click_id)


def _heard(client: redis.Redis, key: bytes) -> Any:
    *_, refit, step = key.decode().split(":")
    try:
        parts = JointRefits(client).reported(refit, int(step), 0)
    except NotDivided as error:
        raise ValueError(str(error)) from error
    return [[array.tolist() for array in part] for part in parts]


def _version(client: redis.Redis, key: bytes) -> Any:
    return Versions(client, 8).load(key.decode().rpartition(":")[2])


def _model(client: redis.Redis, key: bytes) -> Any:
    _, target, version = key.decode().rsplit(":", 2)
    return Models(client).load(target, version)


def _taken(client: redis.Redis, _: bytes) -> Any:
    jobs = Jobs(client)
    jobs.requeue_running()
    return [job.id for job in iter(lambda: jobs.take(1.0), None)]


def _submitted(client: redis.Redis, _: bytes) -> Any:
    job = Jobs(client).submit("train", {}, 1.0)
    return job.kind, job.request, job.status


def _held_lease(client: redis.Redis, _: bytes) -> None:
    lease = Lease(client, "worker", "test", 60)
    lease._token = type("Token", (), {"value": "1:test"})()
    if not lease.renew():
        raise StorageError("lost")


def _evidence(client: redis.Redis, key: bytes) -> Any:
    _, slot, _, target = key.decode().split(":")
    shard = None if slot == "{maps}" else int(slot.strip("{}"))
    found = EvidenceStore(client).read(target, shard)
    return found.until, found.campaigns, found.values.tobytes()


def _unit_days(client: redis.Redis, key: bytes) -> Any:
    days, target = UnitDays(client), key.decode().rpartition(":")[2]
    return days.until(target), {day: sums.tobytes() for day, sums in days.read(target).items()}


READERS: dict[str, Callable[[redis.Redis, bytes], Any]] = {
    "log:": _folded,
    "folding:": _folded,
    "bins:": _bins,
    "judged:": lambda client, key: _tables(client, key, True),
    "logs": lambda client, _: list(Damage(client).named(keys.logs, range(16))),
    "hours": lambda client, _: BinsStore(client, 3600).hours("click"),
    "conversion_logs": lambda client, _: ConversionLog(client).pending(),
    "conversions:": lambda client, key: ConversionLog(client).read(_log(key)),
    "click:": _click,
    "click_log": lambda client, _: OpenClicks(client).closed_into(),
    "open": _due,
    "waiting": lambda client, _: OpenClicks(client).expire_waiting(1e12),
    "current": lambda client, _: Versions(client, 8).load(Versions(client, 8).current() or ""),
    "history": lambda client, _: Versions(client, 8).history(),
    "held": lambda client, _: Versions(client, 8).held(),
    "version:": _version,
    "models:": lambda client, _: Models(client).history("conversion"),
    "model:": _model,
    "heartbeat": lambda client, _: Heartbeat(client, 60).read(),
    "evidence:": _evidence,
    "unit_days:": _unit_days,
    "frozen": lambda client, _: FrozenTargets(client).read(),
    "overrides": lambda client, _: Overrides(client).read(),
    "job:": lambda client, key: Jobs(client).get(key.decode().rpartition(":")[2]),
    "jobs:queued": _taken,
    "jobs:running": _taken,
    "jobs:same": _submitted,
    "lease:": _held_lease,
    "joint_refit": lambda client, _: JointRefits(client).called(),
    "joint_refit:": _heard,
}


@pytest.fixture(scope="module")
def world(redis_server, tmp_path_factory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("traffic")
    with open_redis(redis_server.url) as client:
        client.flushall()
        store_traffic(client, redis_server.url, folder)
        made = World(client, contents(client))
        client.flushall()
        for key, held in made.held.items():
            put(client, key, held)
        client.eval(COPY, 0, "*", 0, 1)
        handler = logging.Handler(logging.ERROR)
        handler.emit = lambda record: made.errors.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger().addHandler(handler)
        yield made
        logging.getLogger().removeHandler(handler)


@pytest.mark.slow
def test_every_kind_is_stored_and_has_a_reader(world):
    stored = {place.kind for key in world.held for place in _parts(key, b"1")}

    assert stored == READERS.keys() | UNSEEN.keys() - {"damage"}


@pytest.mark.parametrize(
    "flips",
    [
        pytest.param(600, id="some"),
        pytest.param(4000, id="all", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_a_flipped_bit_is_noticed_or_changes_nothing(world, flips):
    draw, silent, sound = random.Random(flips), [], {}
    places = {kind: found for kind, found in world.places().items() if kind in READERS}
    for number in range(flips):
        kind = sorted(places)[number % len(places)]
        place = draw.choice(places[kind])
        world.mend(place.key)
        if (kind, place.key) not in sound:
            sound[kind, place.key] = READERS[kind](world.client, place.key)
            world.mend(place.key)
        expected = sound[kind, place.key]
        world.errors.clear()
        world.flip(place, draw)
        try:
            found = READERS[kind](world.client, place.key)
        except (StorageError, ValueError):
            continue
        if found != expected and not world.noticed():
            silent.append((place, expected, found))
    assert silent == []
