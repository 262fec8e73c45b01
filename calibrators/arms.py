"""Which arm of an experiment a unit (a user, a request, whatever the caller names) is in.

A unit is hashed to one of 4,096 buckets, the same for ever; an experiment deals the buckets out to
its arms, in an order that its salt decides. So whoever knows salt and shares finds the same arm,
bit for bit, and the sums of buckets, kept before an experiment begins, tell how its arms differed
then. Growing a share moves no bucket out of its arm that the arm can keep.

Source: "hash and partition", Kohavi, Longbotham, Sommerfield and Henne, "Controlled experiments on
the web: survey and practical guide", Data Mining and Knowledge Discovery 18, 2009, section 4.1.2.

The canary says whether maps on trial are wrong, from the events of the units that they serve, with
few false alarms however often one looks.

Against "the challenger's probabilities are right" stand three alternatives: odds of 1 / RATE and of
RATE times its own (it predicts too much, or too little, as PCOC tells), and the champion's
probabilities (its log loss is lower). The likelihood ratio of each, and so their weighted mean, is
a test martingale if the challenger is right: it exceeds a bound B with a probability of 1 / B at
most, ever (Ville's inequality). For faults that begin later a small part of the weight joins every
hour. RATE is below 1.2 because of all lines of evidence this one reaches the bound most surely
within 1,000 clicks of maps that are off by 20 %. What that finds:
docs/decisions/0019-canary.md. Source: Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics
and safe anytime-valid inference", Statistical Science 38, 2023.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats

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


RATE: Final = 1.12
BOUND: Final = log(100.0)
"""ln of the evidence beyond which the challenger is stopped."""

PCOC, LOG_LOSS, MISSING = "pcoc", "log-loss", "missing-metric"
REASONS: Final = (PCOC, LOG_LOSS, MISSING)
"""Why it was stopped; the last where there is nothing to tell by."""

# Too much, too little, the champion: the first is the hardest to see, for it brings fewer clicks.
_WEIGHTS: Final = np.log([0.5, 0.36, 0.14])
_FIRST: Final = log(0.95)
_LATER: Final = log(0.05 / (30 * 24 - 1))
# A probability of 0 or 1 that came false once would be all the evidence there is.
_LEAST: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class CanaryEvidence:
    """What `hours` with traffic said: ln of the evidence for each alternative, (..., 3), with one
    row for each of several experiments."""

    hours: int
    logs: Floats

    @classmethod
    def none(cls) -> "CanaryEvidence":
        """Of one experiment, before its first hour."""
        return cls(0, np.full(len(_WEIGHTS), -np.inf))

    def after(self, ratios: Floats) -> "CanaryEvidence":
        """With one more hour, whose `log_ratios` these are."""
        joining = _WEIGHTS + (_LATER if self.hours else _FIRST)
        return CanaryEvidence(self.hours + 1, np.logaddexp(self.logs, joining) + ratios)

    @property
    def total(self) -> Floats:
        """ln of all evidence, (...), to compare with BOUND."""
        return np.asarray(np.logaddexp.reduce(self.logs, axis=-1))

    @property
    def reason(self) -> str | None:
        """Why one experiment has to stop: what most of the evidence is; None while it may go on."""
        if self.total < BOUND:
            return None
        *rates, champion = self.logs.tolist()
        return PCOC if np.logaddexp(*rates) >= champion else LOG_LOSS


def log_ratios(challenger: Floats, champion: Floats, counts: Floats, positives: Floats) -> Floats:
    """ln of the likelihood ratios of each alternative, (..., 3), of an hour's events in k cells:
    the probability by either map, (k,), how many, (k,), and their positives, (..., k)."""
    predicted, instead = (np.clip(p, _LEAST, 1.0 - _LEAST) for p in (challenger, champion))
    odds = np.log(instead / predicted) - np.log((1.0 - instead) / (1.0 - predicted))
    gains = np.stack((np.full_like(odds, -log(RATE)), np.full_like(odds, log(RATE)), odds), axis=-1)
    # What multiplies odds by exp(gain) divides the probability of no positive by this.
    losses = np.log1p(np.expm1(gains) * predicted[:, np.newaxis])
    return np.asarray(positives @ gains - counts @ losses)
