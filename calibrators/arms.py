"""Which arm of an experiment a unit (a user, a request, whatever the caller names) is in.

A unit is hashed to one of 4,096 buckets, the same for ever; an experiment deals the buckets out to
its arms, in an order that its salt decides. So whoever knows salt and shares finds the same arm,
bit for bit, and the sums of buckets, kept before an experiment begins, tell how its arms differed
then. Growing a share moves no bucket out of its arm that the arm can keep.

Source: "hash and partition", Kohavi, Longbotham, Sommerfield and Henne, "Controlled experiments on
the web: survey and practical guide", Data Mining and Knowledge Discovery 18, 2009, section 4.1.2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

BUCKETS: Final = 4096
"""Shares of arms are rounded to one of so many parts."""
_SHIFT: Final = 52
"""The upper 12 bits of a unit's number are its bucket."""

CHAMPION, CHALLENGER, RAW = "champion", "challenger", "raw"
ARMS: Final = (CHAMPION, CHALLENGER, RAW)
"""By their numbers: the maps that serve everybody else, those on trial, and none."""

UnitNumbers = NDArray[np.uint64]


def unit_number(unit: str) -> int:
    """The number of a unit, in [0, 2**64): the first 8 bytes of its BLAKE2b digest."""
    return int.from_bytes(blake2b(unit.encode(), digest_size=8).digest(), "little")


def unit_numbers(units: Iterable[str]) -> UnitNumbers:
    """`unit_number` of each of n units, as an array (n,)."""
    digests = (blake2b(unit.encode(), digest_size=8).digest() for unit in units)
    return np.frombuffer(b"".join(digests), "<u8")


def bucket_of_number(number: int) -> int:
    """The bucket, in [0, BUCKETS), of a unit of this number."""
    return number >> _SHIFT


def buckets_of(numbers: UnitNumbers) -> NDArray[np.int64]:
    """The buckets (n,) of units' numbers (n,)."""
    return (numbers >> np.uint64(_SHIFT)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Split:
    """How the buckets are dealt out: `shares` of the challenger and the raw arm, each in [0, 1] and
    together at most 1; the champion has the rest. ValueError on any other shares.

    >>> split = Split("spring", {"challenger": 0.05, "raw": 0.01})
    >>> [split.arm("ann"), split.arm("bob")]
    ['champion', 'champion']
    """

    salt: str
    shares: Mapping[str, float]
    arms: NDArray[np.uint8] = field(init=False, repr=False, compare=False)
    """Number of the arm of each bucket, (4096,)."""

    def __post_init__(self) -> None:
        unknown = self.shares.keys() - {CHALLENGER, RAW}
        if unknown:
            raise ValueError(f"shares.{min(unknown)}: the arms with a share are challenger and raw")
        for arm, share in self.shares.items():
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"shares.{arm} = {share}: must be in [0, 1]")
        if sum(self.shares.values()) > 1.0:
            raise ValueError(f"shares = {dict(self.shares)}: must be at most 1 together")
        object.__setattr__(self, "arms", _dealt(self.salt, self.shares))

    def arm(self, unit: str) -> str:
        """The arm of one unit."""
        return ARMS[self.arms[bucket_of_number(unit_number(unit))]]


def _dealt(salt: str, shares: Mapping[str, float]) -> NDArray[np.uint8]:
    """The challenger takes from the front of the order, the raw arm from its end."""
    key = blake2b(salt.encode(), digest_size=16).digest()
    ranks = [
        blake2b(number.to_bytes(2, "little"), key=key, digest_size=8).digest()
        for number in range(BUCKETS)
    ]
    order = sorted(range(BUCKETS), key=ranks.__getitem__)
    challenger = round(shares.get(CHALLENGER, 0.0) * BUCKETS)
    raw = min(round(shares.get(RAW, 0.0) * BUCKETS), BUCKETS - challenger)
    arms = np.zeros(BUCKETS, np.uint8)
    arms[order[:challenger]] = ARMS.index(CHALLENGER)
    arms[order[BUCKETS - raw :]] = ARMS.index(RAW)
    arms.setflags(write=False)
    return arms
