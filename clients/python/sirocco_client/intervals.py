"""Intervals and quantiles: what a request asks for, and what the edge mode makes of the spreads of
an atlas, as the service does.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Final, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from sirocco_client.errors import BadAtlas, BadInput, checked_number

fill_quantiles: Callable[..., None] | None
try:
    from sirocco_client import _look_up
except ImportError:
    fill_quantiles = None
else:
    fill_quantiles = _look_up.fill_quantiles

Floats = NDArray[np.float64]
LEVEL_RULE: Final = "must be above 0 and below 1"


class WantedIntervals(NamedTuple):
    """What is wanted beside probabilities, each None or in (0, 1)."""

    interval: float | None = None
    quantile: float | None = None

    @classmethod
    def of(
        cls, interval: SupportsFloat | None, quantile: SupportsFloat | None
    ) -> "WantedIntervals":
        """Checked; raises BadInput."""
        levels: dict[str, float] = {}
        for name, level in (("interval", interval), ("quantile", quantile)):
            if level is not None:
                levels[name] = checked_number(name, level, LEVEL_RULE)
                if not 0.0 < levels[name] < 1.0:
                    raise BadInput(name, LEVEL_RULE, level)
        return cls(**levels)

    @property
    def levels(self) -> dict[str, float]:
        """The level of each column of the answer, by its name there."""
        levels = {}
        if self.interval is not None:
            beyond = (1.0 - self.interval) / 2.0
            levels = {"lower": beyond, "upper": min(1.0 - beyond, _HIGHEST)}
        return levels if self.quantile is None else {**levels, "quantiles": self.quantile}

    def as_json(self) -> Mapping[str, float]:
        """The fields of a request."""
        return {name: level for name, level in self._asdict().items() if level is not None}

    def section(self) -> bytes:
        """Of a request in columns; empty where nothing is wanted."""
        levels = tuple(self.levels.values())
        return struct.pack(f"<II{len(levels)}d", len(levels), 0, *levels) if levels else b""


_HIGHEST: Final = 1.0 - 2.0**-53

NO_INTERVALS: Final = WantedIntervals()

_PLACES: Final = 8
_HEAD: Final = struct.Struct("<dd")
_SMALLEST, _LARGEST, _CODES = 1e-3, 4.0, 255


class EdgeSpreads:
    """Standard deviations of the log-odds of each map, at eight log-odds of the score."""

    __slots__ = ("_grid", "_table")

    def __init__(self, data: bytes, maps: int) -> None:
        """From the second section of an atlas of so many maps; raises BadAtlas."""
        if len(data) != _HEAD.size + maps * _PLACES:
            raise BadAtlas(f"atlas: spreads of {maps} maps in {len(data)} bytes")
        low, high = _HEAD.unpack_from(data)
        if not -40.0 <= low < high <= 40.0:
            raise BadAtlas(f"atlas: spreads from {low} to {high}")
        scale = (_PLACES - 1) / (high - low) * (1 - 1e-12)
        # The lowest and the highest score between whose log-odds there are some, last.
        self._grid = np.array([low, scale, *(1 / (1 + np.exp(-end)) for end in (low, high))])
        ratio = np.log(_LARGEST / _SMALLEST) / _CODES
        table = _SMALLEST * np.exp(ratio * np.arange(_CODES + 1))
        codes = np.frombuffer(data, np.uint8, offset=_HEAD.size).reshape(-1, _PLACES)
        self._table = table.astype(np.float32)[codes]

    def quantiles(
        self,
        rows: NDArray[np.int64],
        scores: Floats,
        probabilities: Floats,
        levels: Sequence[float],
        of_effects: Floats | None = None,
    ) -> list[Floats]:
        """Of each level a column, (n,), to the last bit that of the service on the same machine
        where both are compiled, or neither; with the variances of effects of fields, (n,)."""
        factors = np.array([*map(_normal_quantile, levels)])
        if fill_quantiles is None:
            deviations = self._deviations(rows, scores, of_effects)
            return [_quantile(probabilities, deviations, factor) for factor in factors.tolist()]
        found = np.empty(len(factors) * len(rows))
        of_effects = None if of_effects is None else np.ascontiguousarray(of_effects)
        given = map(np.ascontiguousarray, (rows, scores, probabilities))
        fill_quantiles(self._table, self._grid, *given, of_effects, factors, found)
        return list(found.reshape(len(factors), len(rows)))

    def _deviations(
        self, rows: NDArray[np.int64], scores: Floats, of_effects: Floats | None
    ) -> Floats:
        low, scale, lowest, highest = self._grid.tolist()
        inside = np.minimum(np.maximum(scores, lowest), highest)
        along = np.log(inside / (1.0 - inside))
        along -= low
        along *= scale
        places = along.astype(np.int64)
        along -= places
        before, after = self._table[rows, places], self._table[rows, places + 1]
        found: Floats = before + along * (after - before)
        return found if of_effects is None else np.sqrt(found * found + of_effects)


@lru_cache(1024)
def _normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf(level)


def _quantile(probabilities: Floats, deviations: Floats, factor: float) -> Floats:
    odds = np.exp(factor * deviations)
    odds *= probabilities
    found: Floats = odds / (1.0 - probabilities + odds)
    if factor < 0:
        return np.minimum(found, probabilities)
    return np.maximum(found, probabilities) if factor > 0 else probabilities
