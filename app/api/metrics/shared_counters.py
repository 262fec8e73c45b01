"""Rows of counts in one piece of memory: each process adds to its own row, anyone sums them all.

No two processes add to the same number, which would lose counts. A row outlives its process: the
successor goes on from there, so that no sum ever falls.

Where in a row of counts each series has its place: fixed at start, alike in every process.

Labels come from short lists, so that no stranger can make a series; what is on no list counts as
`other`.
Why a connection was closed that its caller had not agreed to close.
"""

import fcntl
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import count, product
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.events.parsing import INVALID, UNKNOWN_TYPE
from app.events.schema import TYPE_NAMES
from calibrators.maps.atlas import CAMPAIGN, IDENTITY, TARGET


class Reason(StrEnum):
    """The label `reason` of `sirocco_connections_closed_total`."""

    IDLE = "idle"
    SLOW_REQUEST = "slow_request"
    SLOW_READER = "slow_reader"
    LARGE_HEAD = "large_head"
    MALFORMED = "malformed"
    PIPELINED = "pipelined"
    TOO_MANY = "too_many"


OTHER: Final = "other"
SECONDS: Final = (
    *(50e-6, 100e-6, 200e-6, 500e-6),
    *(1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3),
    *(0.1, 0.2, 0.5, 1.0),
)
_CODES: Final = (
    *(200, 202, 204, 304, 307),
    *(400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 415, 422, 429),
    *(500, 503),
)
# The block of a route: requests by code and by duration, then the sum of all durations.
BUCKETS: Final = len(SECONDS) + 1
CODES: Final = {code: place * BUCKETS for place, code in enumerate(_CODES)}
OTHER_CODE: Final = len(_CODES) * BUCKETS
SUM: Final = OTHER_CODE + BUCKETS
_BLOCK: Final = SUM + 1

LEVELS: Final = (CAMPAIGN, TARGET, IDENTITY)
EVENT_TYPES: Final = (*TYPE_NAMES.values(), UNKNOWN_TYPE)
RESULTS: Final = ("accepted", INVALID, "late", "future", "full")
GENERATIONS: Final = ("0", "1", "2")
# As the interpreter names what its collector has done.
COLLECTED: Final = ("collected", "uncollectable", "collections")

Pairs = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Slots:
    """The place of every series; `routes` gives the first place of a route's block."""

    routes: dict[str, int]
    scores: Pairs
    events: Pairs
    garbage: Pairs
    closed: dict[Reason, int]
    connections: int
    duplicates: int
    refused_versions: int

    @classmethod
    def of(cls, routes: Iterable[str], targets: Iterable[str]) -> Self:
        """Of an application with these routes and known targets."""
        names = (*dict.fromkeys(routes), OTHER)
        blocks = {name: place * _BLOCK for place, name in enumerate(names)}
        places = count(len(blocks) * _BLOCK)
        return cls(
            blocks,
            dict(zip(product(targets, LEVELS), places, strict=False)),
            dict(zip(product(EVENT_TYPES, RESULTS), places, strict=False)),
            dict(zip(product(COLLECTED, GENERATIONS), places, strict=False)),
            dict(zip(Reason, places, strict=False)),
            next(places),
            next(places),
            next(places),
        )

    @property
    def size(self) -> int:
        """How many places a row has."""
        return self.refused_versions + 1

    @property
    def digest(self) -> bytes:
        """16 bytes that differ wherever any place differs."""
        return blake2b(repr((self, CODES, SECONDS)).encode(), digest_size=16).digest()


# Whose slots the rows have, and nothing else: rows begin on a cache line of their own.
_HEAD: Final = 64
_NUMBER: Final = 8


class SlotsDiffer(ValueError):
    """The rows were begun by processes whose series have other places."""

    def __init__(self) -> None:
        super().__init__(
            "the metrics of the running processes have other series than those of this code and"
            " these settings: stop sirocco and start it again"
        )


class Tallies:
    """`rows` rows of float64, each with the places of `slots`."""

    def __init__(self, memory: mmap.mmap, rows: int, slots: Slots) -> None:
        self._memory = memory
        self._rows, self._size = rows, slots.size

    @classmethod
    def alone(cls, slots: Slots) -> Self:
        """One row in memory of our own."""
        return cls(mmap.mmap(-1, _HEAD + _NUMBER * slots.size), 1, slots)

    @classmethod
    def shared(cls, file: int, offset: int, rows: int, slots: Slots) -> Self:
        """The rows behind `offset` of an open file, which the first process gives its length.

        Raises SlotsDiffer.
        """
        length = _HEAD + _NUMBER * slots.size * rows
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            memory = _begun(file, offset, length, slots.digest)
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
        return cls(memory, rows, slots)

    def row(self, row: int) -> "memoryview[float]":
        """The numbers of one row, to be added to by one thread of one process."""
        numbers = memoryview(self._memory)[_HEAD:].cast("d")
        return numbers[row * self._size : (row + 1) * self._size]

    def total(self) -> NDArray[np.float64]:
        """The sum of all rows."""
        number = self._rows * self._size
        numbers = np.frombuffer(self._memory, np.float64, number, offset=_HEAD)
        total: NDArray[np.float64] = numbers.reshape(self._rows, self._size).sum(axis=0)
        return total


def _begun(file: int, offset: int, length: int, digest: bytes) -> mmap.mmap:
    size = os.fstat(file).st_size
    if size not in (offset, offset + length):
        raise SlotsDiffer
    os.ftruncate(file, offset + length)
    memory = mmap.mmap(file, length, offset=offset)
    if size == offset:
        memory[: len(digest)] = digest
    if memory[: len(digest)] != digest:
        raise SlotsDiffer
    return memory
