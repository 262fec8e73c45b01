"""How workers that refit together find each other, and what they tell each other step by step.

Who holds the lease calls the others; each that comes holds one of the places (`PLACES`), by a lease
of its own. What they tell lives for minutes: a refit that one of them leaves begins anew.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import redis

from app.storage import keys
from app.storage.blocks import framed, opened
from app.storage.keys import seal, unseal
from app.storage.redis.client import as_bytes, as_text, reaching_the_store
from calibrators.peers import NotDivided, Part

PLACES: Final = tuple(f"joint-{place}" for place in range(1, keys.SHARDS))
"""The leases of those who help: one fewer than there are shards to divide."""

_LIFE_MILLISECONDS = 15 * 60_000
_STOPPED = "stopped"


class Member(NamedTuple):
    """Who takes part: the name of a lease, and the token that holds it."""

    lease: str
    token: str


class Call(NamedTuple):
    """A refit to come to.

    id : of this try of it.
    target, calibrator : what is fitted, and by which method.
    as_of : in hours since 1970; first, behind : the hours that are looked at.
    trial : whether the guard asks for one.
    likeness : of the settings and the version of sirocco that it needs.
    members : those who have come, in order of their places, once all have.
    """

    id: str
    target: str
    calibrator: str
    as_of: float
    first: int
    behind: int
    trial: bool
    likeness: str
    members: Sequence[Member] = ()


_READ: Final = msgspec.json.Decoder(Call)


class JointRefits:
    """One of the workers' access to the store."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    @reaching_the_store()
    def call(self, call: Call) -> None:
        """Call the others, or tell who has come; in place of any call before."""
        text = seal(msgspec.json.encode(call).decode(), keys.JOINT_REFIT)
        self._client.set(keys.JOINT_REFIT, text, px=_LIFE_MILLISECONDS)

    @reaching_the_store()
    def called(self) -> Call | None:
        """The refit that others are called to; None where there is none, or nobody can read it."""
        text = self._client.get(keys.JOINT_REFIT)
        try:
            return None if text is None else _READ.decode(unseal(text, keys.JOINT_REFIT))
        except (ValueError, msgspec.DecodeError):
            return None

    @reaching_the_store()
    def end(self, refit: str, last: int) -> None:
        """Nobody is to come any more, and what was told last is not needed."""
        self._client.delete(keys.JOINT_REFIT)
        self.forget(refit, last)

    @reaching_the_store()
    def came(self) -> list[Member]:
        """Who holds one of the places now."""
        return [each for each in self._held(PLACES) if each.token]

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
    def tell(self, refit: str, step: int, place: int, parts: Iterable[Part]) -> None:
        """What one of them has to say in a step."""
        key = keys.joint_refit(refit, step)
        self._client.hset(key, str(place), packed(parts))
        self._client.pexpire(key, _LIFE_MILLISECONDS)

    @reaching_the_store()
    def count(self, refit: str, step: int) -> int:
        """How many have told what they have to say in a step."""
        return int(self._client.hlen(keys.joint_refit(refit, step)))

    @reaching_the_store()
    def told(self, refit: str, step: int, place: int) -> list[Part]:
        """What one of them has said in a step; raises `NotDivided` where that is damaged."""
        return unpacked(
            as_bytes(self._client.hget(keys.joint_refit(refit, step), str(place)) or b"")
        )

    @reaching_the_store()
    def forget(self, refit: str, step: int) -> None:
        """What was told in a step: all have read it."""
        self._client.unlink(keys.joint_refit(refit, step))

    @reaching_the_store()
    def stop(self, refit: str, reason: str) -> None:
        """Nobody need wait for this one any longer."""
        key = keys.joint_refit(refit, _STOPPED)
        self._client.hset(key, _STOPPED, reason)
        self._client.pexpire(key, _LIFE_MILLISECONDS)

    @reaching_the_store()
    def stopped(self, refit: str) -> str | None:
        """Why one of them goes no further, if one does."""
        reason = self._client.hget(keys.joint_refit(refit, _STOPPED), _STOPPED)
        return None if reason is None else as_bytes(reason).decode(errors="replace")


_MAGIC: Final = b"SJNT"
_HEAD_SIZE: Final = 4
_HEAD: Final = msgspec.json.Decoder(list[list[tuple[str, tuple[int, ...]]]])


def packed(parts: Iterable[Part]) -> bytes:
    """The bytes of parts: length of the head, head, and all arrays end to end."""
    listed = [[np.ascontiguousarray(array) for array in part] for part in parts]
    head = msgspec.json.encode([[(a.dtype.str, a.shape) for a in part] for part in listed])
    arrays = (array.tobytes() for part in listed for array in part)
    return framed(_MAGIC, b"".join((len(head).to_bytes(_HEAD_SIZE, "little"), head, *arrays)), 0)


def unpacked(data: bytes) -> list[Part]:
    """The parts that `packed` wrote; raises `NotDivided` on any other bytes."""
    try:
        body, _ = opened(_MAGIC, data, 0)
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
