"""Workers that refit together: each has some of a history's blocks, and all take the same steps.

Wherever a step needs all campaigns, each worker tells the others what its blocks give, and every
one of them adds up the same numbers in the same order: that of the blocks, whoever has them. So one
worker and seven come to the same bits. See docs/decisions/0023-refits-together.md.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Part = tuple[Array, ...]
Item = TypeVar("Item")
Sum = TypeVar("Sum", bound=Array)


class NotDivided(Exception):
    """Why one worker has to refit alone; the message says it."""


class Peers(ABC):
    """Those that refit together, as one of them sees it.

    place : which of them it is, from 0; the first makes the maps of all.
    count : how many they are.
    """

    place: int = 0
    count: int = 1

    @abstractmethod
    def gather(self, parts: Iterable[Part], to_first: bool = False) -> Iterable[Part]:
        """The parts of all, in the order of their places, to be gone through once; all must call it
        alike. Where only the first needs them, the others get none. Raises `NotDivided` where
        another gives up."""

    @property
    def is_first(self) -> bool:
        """Whether it makes the maps of all."""
        return self.place == 0

    def share(self, listed: Sequence[Item]) -> Sequence[Item]:
        """Its part of a list that all have, of which each takes some: even, and in order."""
        first, behind = (len(listed) * at // self.count for at in (self.place, self.place + 1))
        return listed[first:behind]

    def sum(self, parts: Iterable[Sum]) -> Sum:
        """The sum of one part of each block, one at least, added up block after block."""
        found: Any = reduce(np.add, (part for (part,) in self.gather((each,) for each in parts)))
        return cast(Sum, found)

    def joined(self, *columns: Array, to_first: bool = False) -> Part:
        """Columns of all workers, each end to end; its own where only the first needs them all."""
        if self.count == 1:
            return columns
        found = list(self.gather([columns], to_first)) or [columns]
        return tuple(map(np.concatenate, zip(*found, strict=True)))

    def from_first(self, *columns: Array) -> Part:
        """What the first tells all: its columns."""
        return next(iter(self.gather([columns] if self.is_first else [])))

    def names(self, own: Sequence[str]) -> Sequence[str]:
        """The names of all, for the first; at the others their own."""
        if self.count == 1:
            return own
        parts = list(self.gather([(as_array(own),)], to_first=True))
        return [name for (part,) in parts for name in listed_in(part)] if parts else own

    def collected(self, own: Array, most: int) -> list[Array]:
        """What each worker has, (n,) of its own n, for the first: so much of each at a time, and
        more only once the first has read that, so that nobody else has to hold it all."""
        found: list[list[Array]] = [[] for _ in range(self.count)]
        longest = int(self.joined(np.array([len(own)]))[0].max())
        for at in range(0, max(longest, 1), most):
            if at:
                self.any(False)
            for place, (part,) in enumerate(self.gather([(own[at : at + most],)], to_first=True)):
                found[place].append(part)
        return [np.concatenate(each) for each in found if each]

    def any(self, holds: bool) -> bool:
        """Whether it holds at one of them."""
        return bool(self.joined(np.array([holds]))[0].any())


class Alone(Peers):
    """One worker with all blocks."""

    def gather(self, parts: Iterable[Part], to_first: bool = False) -> Iterable[Part]:
        """See `Peers`."""
        return parts


ALONE = Alone()


def as_array(listed: Sequence[Any]) -> Array:
    """What JSON can hold, such as names, as an array of bytes, which `listed_in` reads."""
    return np.frombuffer(json.dumps(list(listed)).encode(), np.uint8)


def listed_in(array: Array) -> list[Any]:
    """What `as_array` wrote."""
    listed: list[Any] = json.loads(array.tobytes())
    return listed
