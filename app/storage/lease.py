"""Leases with fencing numbers that grow with every grant; the share of work that each of several
workers has by them; how workers that refit together find each other, and what they report to each
other step by step; and the worker's heartbeat.

Who holds the lease calls the others; each that comes holds one of the `PLACES`, by a lease of its
own. What they report lives for minutes: a refit that one of them leaves begins anew.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from threading import Event, Thread
from typing import Any, Final, NamedTuple, Self
from zlib import crc32

import msgspec
import numpy as np
import orjson
import redis

from app.storage import keys
from app.storage.blocks import framed, opened
from app.storage.errors import LeaseLost, StorageUnavailable
from app.storage.keys import seal, unseal
from app.storage.redis.client import as_bytes, as_text, lua, reaching_the_store
from calibrators.peers import NotDivided, Part


@dataclass(frozen=True, slots=True)
class LeaseToken:
    """Proof of one grant. `number` grows with every grant of the lease of that name."""

    name: str
    holder: str
    number: int

    @property
    def value(self) -> str:
        """What Redis holds while the grant lasts."""
        return f"{self.number}:{self.holder}"


class Lease:
    """The right to be the only one, for ttl seconds from each acquire or renew."""

    def __init__(self, client: redis.Redis, name: str, holder: str, ttl: float) -> None:
        self._name = name
        self._holder = holder
        self._ttl_milliseconds = max(1, round(ttl * 1000))
        self._token: LeaseToken | None = None
        self._acquire = client.register_script(lua("acquire_lease"))
        self._renew = client.register_script(lua("renew_lease"))
        self._release = client.register_script(lua("release_lease"))

    @property
    def token(self) -> LeaseToken:
        """Proof of the last grant; what needs the lease checks it again in Redis.

        Raises LeaseLost when the lease was never granted, was released or was not renewed in time.
        """
        if self._token is None:
            raise LeaseLost(self._name)
        return self._token

    @reaching_the_store()
    def acquire(self) -> bool:
        """Take the lease if nobody holds it."""
        names = [keys.lease(self._name), keys.fence(self._name)]
        number = self._acquire(keys=names, args=(self._holder, self._ttl_milliseconds))
        self._token = LeaseToken(self._name, self._holder, number) if number else None
        return self._token is not None

    @reaching_the_store()
    def renew(self) -> bool:
        """Hold on for another ttl; False when the lease ran out or another holds it."""
        if self._token is None:
            return False
        arguments = (self._token.value, self._ttl_milliseconds)
        if not self._renew(keys=[keys.lease(self._name)], args=arguments):
            self._token = None
        return self._token is not None

    @reaching_the_store()
    def release(self) -> None:
        """Give the lease back, if it is still held."""
        if self._token is not None:
            self._release(keys=[keys.lease(self._name)], args=[self._token.value])
            self._token = None


_TRIES: Final = 10
"""Times that a renewal which failed is tried again in the pause between two."""


class LeaseKeeper:
    """Renews a lease in a thread of its own, three times in its life, and calls `beat` each time:
    whoever holds it gives signs of life through the longest refit.

    When the lease is lost, `held` turns false; what the holder still tries to publish then is
    refused by the store itself.
    """

    def __init__(self, lease: Lease, life_seconds: float, beat: Callable[[], object]) -> None:
        self._lease = lease
        self._beat = beat
        self._pause = life_seconds / 3
        self._stop = Event()
        self._thread = Thread(target=self._keep, name="lease-keeper", daemon=True)
        self.held = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _keep(self) -> None:
        pause = self._pause
        while self.held and not self._stop.wait(pause):
            try:
                self.held = self._lease.renew()
                pause = self._pause
                if self.held:
                    self._beat()
            except StorageUnavailable:
                # The store may come back before the lease ends; it decides then. A time-out has
                # taken a part of its life already.
                pause = self._pause / _TRIES


class ShardShare:
    """Divides the shards among those who take part, by leases of as many places as shards at most.

    Whoever dies keeps its share until its place runs out, and while somebody comes or goes two may
    hold the same shards, or none: only for work that any number may do at once, and later.
    """

    def __init__(self, client: redis.Redis, name: str, holder: str, ttl: float) -> None:
        self._client = client
        self._places = [f"{name}-{place}" for place in range(keys.SHARDS)]
        self._leases = [Lease(client, place, holder, ttl) for place in self._places]
        self._place: int | None = None

    @reaching_the_store()
    def take(self) -> range:
        """Take part for another ttl; the shards that are its own, none where others have all."""
        if self._place is None or not self._leases[self._place].renew():
            free = (place for place, lease in enumerate(self._leases) if lease.acquire())
            self._place = next(free, None)
        if self._place is None:
            return range(0)
        # Its own may have run out since.
        taken = sorted({self._place, *self._taken()})
        return range(taken.index(self._place), keys.SHARDS, len(taken))

    @reaching_the_store()
    def others(self) -> int:
        """How many others take part."""
        return len({*self._taken()} - {self._place})

    def _taken(self) -> list[int]:
        held = self._client.mget([keys.lease(place) for place in self._places])
        return [place for place, one in enumerate(held) if one is not None]

    def leave(self) -> None:
        """Leave its share to the others."""
        if self._place is not None:
            self._leases[self._place].release()
            self._place = None


PLACES: Final = tuple(f"joint-{place}" for place in range(1, keys.SHARDS))
"""The leases of those who help: one fewer than there are shards to divide."""

_REPORTED_MILLISECONDS = 15 * 60_000
_STOPPED = "stopped"


class Member(NamedTuple):
    """Who takes part: the name of a lease, and the token that holds it."""

    lease: str
    token: str


class Call(NamedTuple):
    """A refit to come to.

    id : of this try of it.
    target, calibrator : what is fitted, and by which method.
    as_of : in hours since 1970, of clicks in seconds; first, behind : the hours that are looked at.
    trial : whether the guard asks for one.
    report : the hours of the window that a report is made of besides: the first, and the first
        behind; none where both are 0.
    likeness : of the settings and the code that it needs.
    members : those who have come, in order of their places, once all have.
    model : where clicks are to be read instead, the version of the model that scores them.
    """

    id: str
    target: str
    calibrator: str
    as_of: float
    first: int
    behind: int
    trial: bool
    report: tuple[int, int]
    likeness: str
    members: Sequence[Member] = ()
    model: str = ""


_READ: Final = msgspec.json.Decoder(Call)


class JointRefits:
    """One of the workers' access to the store."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    @reaching_the_store()
    def call(self, call: Call) -> None:
        """Call the others, or tell who has come; in place of any call before."""
        text = seal(msgspec.json.encode(call).decode(), keys.JOINT_REFIT)
        self._client.set(keys.JOINT_REFIT, text, px=_REPORTED_MILLISECONDS)

    @reaching_the_store()
    def called(self) -> Call | None:
        """The refit that others are called to; None where there is none. What nobody can read is
        dropped: who called goes on without those who did not hear."""
        text = self._client.get(keys.JOINT_REFIT)
        try:
            return None if text is None else _READ.decode(unseal(text, keys.JOINT_REFIT))
        except (ValueError, msgspec.DecodeError) as error:
            _log.error("a call to a refit cannot be read: %s", error)
            self._client.delete(keys.JOINT_REFIT)
            return None

    @reaching_the_store()
    def end(self, refit: str, last: int) -> None:
        """Nobody is to come any more, and what was told last is not needed."""
        self._client.delete(keys.JOINT_REFIT)
        self.forget(refit, last)

    @reaching_the_store()
    def came(self, dead: Collection[Member] = ()) -> list[Member]:
        """Who holds one of the places now, but for those who did when they died."""
        return [each for each in self._held(PLACES) if each.token and each not in dead]

    @reaching_the_store()
    def gone(self, members: Iterable[Member]) -> list[Member]:
        """Those who do not hold their leases any more."""
        listed = list(members)
        held = self._held([member.lease for member in listed])
        return [member for member, now in zip(listed, held, strict=True) if member != now]

    def _held(self, leases: Sequence[str]) -> list[Member]:
        tokens = self._client.mget([keys.lease(name) for name in leases])
        named = zip(leases, tokens, strict=True)
        return [Member(name, "" if token is None else as_text(token)) for name, token in named]

    @reaching_the_store()
    def report(self, refit: str, step: int, place: int, parts: Iterable[Part]) -> None:
        """What one of them has to say in a step."""
        key = keys.joint_refit(refit, step)
        self._client.hset(key, str(place), packed(parts, _seed(key, place)))
        self._client.pexpire(key, _REPORTED_MILLISECONDS)

    @reaching_the_store()
    def reporters(self, refit: str, step: int) -> set[int]:
        """The places of those who have told what they have to say in a step; raises `NotDivided`
        where nobody can read them."""
        places = self._client.hkeys(keys.joint_refit(refit, step))
        try:
            return set(map(int, places))
        except ValueError as error:
            raise NotDivided(f"who has told what is damaged: {error}") from None

    @reaching_the_store()
    def reported(self, refit: str, step: int, place: int) -> list[Part]:
        """What one of them has said in a step; raises `NotDivided` where that is damaged."""
        key = keys.joint_refit(refit, step)
        data = self._client.hget(key, str(place))
        return unpacked(as_bytes(data or b""), _seed(key, place))

    @reaching_the_store()
    def forget(self, refit: str, step: int) -> None:
        """What was told in a step: all have read it."""
        self._client.unlink(keys.joint_refit(refit, step))

    @reaching_the_store()
    def stop(self, refit: str, reason: str) -> None:
        """Nobody need wait for this one any longer."""
        key = keys.joint_refit(refit, _STOPPED)
        self._client.hset(key, _STOPPED, reason)
        self._client.pexpire(key, _REPORTED_MILLISECONDS)

    @reaching_the_store()
    def stopped(self, refit: str) -> str | None:
        """Why one of them goes no further, if one does."""
        reason = self._client.hget(keys.joint_refit(refit, _STOPPED), _STOPPED)
        return None if reason is None else as_bytes(reason).decode(errors="replace")


_MAGIC: Final = b"SJNT"
_HEAD_SIZE: Final = 4
_HEAD: Final = msgspec.json.Decoder(list[list[tuple[str, tuple[int, ...]]]])


def _seed(key: str, place: int) -> int:
    return crc32(f"{key}:{place}".encode())


def packed(parts: Iterable[Part], seed: int = 0) -> bytes:
    """The bytes of parts: length of the head, head, and all arrays end to end."""
    listed = [[np.ascontiguousarray(array) for array in part] for part in parts]
    head = msgspec.json.encode([[(a.dtype.str, a.shape) for a in part] for part in listed])
    arrays = (array.tobytes() for part in listed for array in part)
    body = b"".join((len(head).to_bytes(_HEAD_SIZE, "little"), head, *arrays))
    return framed(_MAGIC, body, seed)


def unpacked(data: bytes, seed: int = 0) -> list[Part]:
    """The parts that `packed` wrote with the same seed; raises `NotDivided` on any other bytes."""
    try:
        body, _ = opened(_MAGIC, data, seed)
        behind = _HEAD_SIZE + int.from_bytes(body[:_HEAD_SIZE], "little")
        return list(_arrays(body, behind, _HEAD.decode(body[_HEAD_SIZE:behind])))
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        raise NotDivided(f"what a worker has told is damaged: {error}") from None


def _arrays(
    body: bytes, at: int, head: Sequence[Sequence[tuple[str, tuple[int, ...]]]]
) -> Iterator[Part]:
    for part in head:
        arrays = []
        for kind, shape in part:
            found = np.frombuffer(body, kind, int(np.prod(shape, dtype=np.int64)), at)
            arrays.append(found.reshape(shape))
            at += found.nbytes
        yield tuple(arrays)


class Heartbeat:
    """What the worker last said of itself; gone when it has been silent for ttl_seconds."""

    def __init__(self, client: redis.Redis, ttl_seconds: int) -> None:
        self._client = client
        self._ttl_seconds = ttl_seconds

    @reaching_the_store()
    def write(self, state: Mapping[str, Any]) -> None:
        """Replace what was said: at (epoch seconds), holder, and whatever JSON holds."""
        said = seal(orjson.dumps(dict(state)).decode(), keys.HEARTBEAT)
        self._client.set(keys.HEARTBEAT, said, ex=self._ttl_seconds)

    @reaching_the_store()
    def read(self) -> dict[str, Any] | None:
        """The last state, or None after ttl_seconds of silence, and for what is no state. What is
        no number where one belongs, or no table of them, is left out."""
        return _state_of(self._client.get(keys.HEARTBEAT))


_FORMER: Final = re.compile(r"\{.*", re.DOTALL)
_TABLES: Final = {"guard", "pushes", "clicks", "damaged", "progress"}
_TEXTS: Final = {"holder", "phase"}
_log = logging.getLogger(__name__)


def _state_of(data: bytes | str | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        said = orjson.loads(unseal(as_bytes(data), keys.HEARTBEAT, _FORMER))
    except ValueError as error:
        _log.error("the worker's heartbeat is damaged: %s", error)
        return None
    state = {name: value for name, value in said.items() if _is_sound(name, value)}
    return state if _is_number(state.get("at")) else None


def _is_sound(name: str, value: Any) -> bool:
    if name in _TABLES:
        return isinstance(value, dict) and all(map(_is_number, value.values()))
    if name == "held":
        return value is None or isinstance(value, dict)
    return isinstance(value, str) if name in _TEXTS else value is None or _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)
