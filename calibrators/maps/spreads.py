"""How far each map may be off: standard deviations of the log-odds, and quantiles made of them."""

import struct
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, Singles

PLACES: Final = 8
"""Scores at which a map's standard deviation is kept; between them it is interpolated."""

_SMALLEST, _LARGEST = 1e-3, 4.0
_CODES = 255
_RATIO = np.log(_LARGEST / _SMALLEST) / _CODES
_HEAD = struct.Struct("<dd")
# A score at the last place must not look behind it.
_BELOW_ONE = 1 - 1e-12


@lru_cache(1024)
def normal_quantile(level: float) -> float:
    """The quantile of a standard normal variable at a level in (0, 1)."""
    return NormalDist().inv_cdf(level)


class Spreads:
    """Posterior standard deviations of the log-odds that n maps give, at `PLACES` log-odds of the
    score from `low` to `high`, the same for all maps; a byte each, 3 % apart; immutable.

    >>> spreads = Spreads.of(-6.0, -1.0, np.full((1, PLACES), 0.2))
    >>> spreads.at(np.array([0]), np.array([0.01])).round(2).tolist()
    [0.2]
    """

    __slots__ = ("_highest", "_lowest", "_scale", "_table", "codes", "high", "low")

    codes: Final[NDArray[np.uint8]]

    def __init__(self, low: float, high: float, codes: NDArray[np.uint8]) -> None:
        """Codes, (n, 8); ValueError unless -40 <= low < high <= 40."""
        if not -40.0 <= low < high <= 40.0:
            raise ValueError(f"spreads: from {low} to {high}: must rise, and be in [-40, 40]")
        self.low, self.high, self.codes = low, high, codes
        self._lowest, self._highest = (float(1 / (1 + np.exp(-end))) for end in (low, high))
        self._scale = (PLACES - 1) / (high - low) * _BELOW_ONE
        table = _SMALLEST * np.exp(_RATIO * np.arange(_CODES + 1))
        self._table: Singles = table.astype(np.float32)[codes].reshape(-1)

    @classmethod
    def of(cls, low: float, high: float, deviations: Floats) -> Self:
        """Of standard deviations, (n, 8)."""
        codes = np.rint(np.log(np.maximum(deviations, _SMALLEST) / _SMALLEST) / _RATIO)
        return cls(low, high, np.minimum(codes, _CODES).astype(np.uint8))

    def __len__(self) -> int:
        return len(self.codes)

    def taken(self, rows: Integers) -> "Spreads":
        """Those of some rows, in their order."""
        return Spreads(self.low, self.high, self.codes[rows])

    def at(self, rows: Integers, scores: Floats) -> Floats:
        """The standard deviation of each map at its score, (n,)."""
        inside = np.minimum(np.maximum(scores, self._lowest), self._highest)
        along = np.log(inside / (1.0 - inside))
        along -= self.low
        along *= self._scale
        places = along.astype(np.int64)
        along -= places
        places += rows * PLACES
        before = self._table.take(places)
        places += 1
        found: Floats = before + along * (self._table.take(places) - before)
        return found

    def to_bytes(self) -> bytes:
        """Little-endian: low f8, high f8, and the codes u1, eight a map."""
        return _HEAD.pack(self.low, self.high) + self.codes.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, maps: int) -> Self:
        """Those of so many maps; ValueError on bytes that `to_bytes` did not write."""
        if len(data) != _HEAD.size + maps * PLACES:
            raise ValueError(f"spreads: {maps} maps need {_HEAD.size + maps * PLACES} bytes")
        codes = np.frombuffer(data, np.uint8, offset=_HEAD.size).reshape(-1, PLACES)
        low, high = _HEAD.unpack_from(data)
        return cls(low, high, codes)


def quantiles_of(probabilities: Floats, deviations: Floats, levels: Sequence[float]) -> Floats:
    """expit(logit(p) + z sd), z the normal quantile of each level in (0, 1), (k, n); 0 and 1 stay.
    Not above the probability where the level is below a half, not below it where it is above."""
    factors = [*map(normal_quantile, levels)]
    # Of all levels at once: of a hundred scores each call costs more than its numbers.
    odds: Floats = np.multiply.outer(factors, deviations)
    np.exp(odds, odds)
    odds *= probabilities
    odds /= (1.0 - probabilities) + odds
    for factor, found in zip(factors, odds, strict=True):
        if factor < 0:
            np.minimum(found, probabilities, out=found)
        elif factor > 0:
            np.maximum(found, probabilities, out=found)
        else:
            found[:] = probabilities
    return odds
