"""Which arm of an experiment a unit (a user, a request) is in, worked out in this process: the same
as the service's, bit for bit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sirocco_client.errors import BadInput, length_of
from sirocco_client.fields import Texts

BUCKETS: Final = 4096
_SHIFT: Final = 52
CHAMPION, CHALLENGER, RAW = "champion", "challenger", "raw"
ARMS: Final = (CHAMPION, CHALLENGER, RAW)
"""By their numbers: the maps that serve everybody else, those on trial, and none."""

LONGEST_UNIT: Final = 256
_UNIT_RULE: Final = f"must be a string of 1 to {LONGEST_UNIT} bytes of UTF-8"

Units = Texts
UnitNumbers = NDArray[np.uint64]
ArmNumbers = NDArray[np.uint8]


def check_units(units: Units, scores: int) -> None:
    """BadInput unless there is one for all or one for each of so many scores, each in bounds."""
    if isinstance(units, str):
        check_unit("units", units)
        return
    if length_of("units", units) != scores:
        raise BadInput("units", f"has {len(units)} items beside {scores} scores")
    for place, unit in enumerate(units):
        check_unit(f"units[{place}]", unit)


def check_unit(field: str, unit: str) -> None:
    """BadInput on what is no unit."""
    try:
        size = len(unit.encode())
    except (AttributeError, UnicodeEncodeError):
        size = 0
    if not 0 < size <= LONGEST_UNIT:
        raise BadInput(field, _UNIT_RULE, unit)


def unit_numbers(units: Iterable[str]) -> UnitNumbers:
    """The number of each of n units, in [0, 2**64), as an array (n,): the first 8 bytes of its
    BLAKE2b digest."""
    digests = (blake2b(unit.encode(), digest_size=8).digest() for unit in units)
    return np.frombuffer(b"".join(digests), "<u8")


@dataclass(frozen=True, slots=True)
class UnitSplit:
    """How 4,096 buckets of units are dealt out: `shares` of the challenger and the raw arm, each in
    [0, 1] and together at most 1; the champion has the rest. ValueError on any other shares."""

    salt: str
    shares: Mapping[str, float]
    arms: ArmNumbers = field(init=False, repr=False, compare=False)
    """Number of the arm of each bucket, (4096,)."""

    def __post_init__(self) -> None:
        within = all(0.0 <= share <= 1.0 for share in self.shares.values())
        if not within or sum(self.shares.values()) > 1.0 or self.shares.keys() - {CHALLENGER, RAW}:
            raise ValueError(
                f"shares = {dict(self.shares)}: challenger and raw, in [0, 1] together"
            )
        object.__setattr__(self, "arms", _dealt(self.salt, self.shares))

    def numbers(self, units: Units, scores: int) -> ArmNumbers:
        """The number of the arm of each of so many scores, whose units are checked."""
        given = [units] if isinstance(units, str) else units
        buckets = (unit_numbers(given) >> np.uint64(_SHIFT)).astype(np.int64)
        return np.broadcast_to(self.arms[buckets], scores)


def _dealt(salt: str, shares: Mapping[str, float]) -> ArmNumbers:
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
