"""The calibration map: the piecewise-linear function from score to probability.

Also step functions and tails as such maps, many maps end to end as columns, and how far each may be
off: standard deviations of the log-odds, and quantiles made of them.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import nextafter
from statistics import NormalDist
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.names import compiled
from calibrators.samples import (
    IN_MEMORY,
    Floats,
    Integers,
    Scratch,
    Singles,
    all_obey,
    check_equal_lengths,
    check_unit_interval,
    places_of,
)

fill_quantiles: Callable[..., None] | None = compiled and compiled.fill_quantiles

_STEEPEST = float(np.finfo(np.float64).max)


def segment_slopes(knots: Floats, values: Floats) -> Floats:
    """Slope of the segment that starts at each knot, shape (k,); 0 for the last.

    A map is evaluated as value + slope * (score - knot). Rounding could carry that past the next
    knot's value and break monotonicity in the last bit, so each slope is the nearest float, towards
    0, that does not: what lies between two knots then never leaves their values. Maps may stand
    end to end: the seam, where the knots fall back to 0, is no segment and its slope is 0.
    """
    run = knots[1:] - knots[:-1]
    slopes = np.zeros(len(knots))
    inner = slopes[:-1]
    with np.errstate(over="ignore"):
        np.divide(values[1:] - values[:-1], run, out=inner)
    np.maximum(inner, -_STEEPEST, out=inner)
    np.minimum(inner, _STEEPEST, out=inner)
    inner[run < 0] = 0.0
    while (over := _overshoots(values, run, inner)).any():
        inner[over] = np.nextafter(inner[over], 0.0)
    return slopes


def _overshoots(values: Floats, run: Floats, slopes: Floats) -> NDArray[np.bool_]:
    reached, following = values[:-1] + slopes * run, values[1:]
    rising = (slopes > 0) & (reached > following)
    return rising | ((slopes < 0) & (reached < following))


SCHEMA_VERSION = 1
_HEADER = struct.Struct("<4sHI")
_MAGIC = b"SMAP"


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationMap:
    """Knots and values, shape (k,) each, k >= 2; linear between knots.

    Knots increase strictly from 0.0 to 1.0 and values lie in [0, 1], so every score has exactly
    one finite probability. Raises ValueError otherwise. Immutable. `monotone` tells whether no
    larger score gets a smaller probability, to the last bit.

    >>> halved = CalibrationMap([0.0, 1.0], [0.0, 0.5])
    >>> halved([0.1, 0.8])
    array([0.05, 0.4 ])
    """

    knots: Floats
    values: Floats
    slopes: Floats = field(init=False, repr=False)

    def __init__(self, knots: ArrayLike, values: ArrayLike) -> None:
        checked_knots = check_unit_interval("knots", knots) + 0.0
        checked_values = check_unit_interval("values", values) + 0.0
        check_equal_lengths(knots=checked_knots, values=checked_values)
        if len(checked_knots) < 2 or checked_knots[0] != 0.0 or checked_knots[-1] != 1.0:
            raise ValueError("knots: at least two, the first 0.0, the last 1.0")
        rises = np.append(True, np.diff(checked_knots) > 0)
        all_obey("knots", checked_knots, rises, "knots must increase strictly")
        slopes = segment_slopes(checked_knots, checked_values)
        for name, array in zip(
            ("knots", "values", "slopes"), (checked_knots, checked_values, slopes), strict=True
        ):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def identity(cls) -> Self:
        """The map that changes nothing."""
        return cls([0.0, 1.0], [0.0, 1.0])

    @classmethod
    def proportional(cls, ratio: float) -> Self:
        """score * ratio, at most 1: one ratio of outcomes to scores for the whole range."""
        if not 0.0 <= ratio < np.inf:
            raise ValueError(f"ratio = {ratio}: must be finite and at least 0")
        if ratio <= 1.0:
            return cls([0.0, 1.0], [0.0, ratio])
        return cls([0.0, 1.0 / ratio, 1.0], [0.0, 1.0, 1.0])

    def __call__(self, scores: ArrayLike) -> Floats:
        """Probabilities of scores in [0, 1], shape (n,); ValueError on any other score."""
        checked = check_unit_interval("scores", scores)
        segment = np.searchsorted(self.knots, checked, side="right") - 1
        return self.values[segment] + self.slopes[segment] * (checked - self.knots[segment])

    def at(self, score: float) -> float:
        """Probability of one score in [0, 1]; ValueError on any other."""
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score = {score}: must be in [0, 1]")
        segment = bisect_right(self.knots, score) - 1
        knot, value = float(self.knots[segment]), float(self.values[segment])
        return value + float(self.slopes[segment]) * (score - knot)

    @property
    def monotone(self) -> bool:
        """Whether probabilities never fall as scores rise."""
        return bool(np.all(np.diff(self.values) >= 0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CalibrationMap) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_json(self) -> dict[str, Any]:
        """`{"schema_version": 1, "knots": [...], "values": [...]}`; floats round-trip exactly."""
        return {
            "schema_version": SCHEMA_VERSION,
            "knots": self.knots.tolist(),
            "values": self.values.tolist(),
        }

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SMAP", schema_version u2, k u4, k knots f8, k values f8."""
        header = _HEADER.pack(_MAGIC, SCHEMA_VERSION, len(self.knots))
        return header + self.knots.astype("<f8").tobytes() + self.values.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The map that `to_bytes` wrote; ValueError on any other bytes."""
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise ValueError("these are not the bytes of a calibration map")
        _, version, count = _HEADER.unpack_from(data)
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"calibration map: schema_version {version}, this reads {SCHEMA_VERSION}"
            )
        if len(data) != _HEADER.size + 16 * count:
            raise ValueError(f"a map of {count} knots has {_HEADER.size + 16 * count} bytes")
        columns = np.frombuffer(data, "<f8", 2 * count, _HEADER.size)
        return cls(columns[:count], columns[count:])


def borders_between(scores: Floats) -> Floats:
    """The last float of each of m steps but the highest, shape (m - 1,), from ascending scores.

    A border lies halfway to the next score, and below it even where the two are neighbours.
    """
    lower, upper = scores[:-1], scores[1:]
    return np.minimum(lower + (upper - lower) / 2, np.nextafter(upper, 0.0))


def step_map(borders: Floats, values: Floats) -> CalibrationMap:
    """The map with values[i] for scores above borders[i - 1] and up to borders[i].

    Borders, shape (k - 1,), increase strictly in [0, 1); values, shape (k,), lie in [0, 1]. A step
    is two knots at neighbouring floats: no score falls between them. Raises ValueError without a
    value.

    >>> step_map(np.array([0.5]), np.array([0.1, 0.4]))([0.0, 0.5, np.nextafter(0.5, 1), 1.0])
    array([0.1, 0.1, 0.4, 0.4])
    """
    if not len(values):
        raise ValueError("values: there are none, a map needs one at least")
    rises = np.diff(values) != 0
    last, held = borders[rises], values[np.append(True, rises)]
    ends = np.stack((np.append(0.0, np.nextafter(last, 1.0)), np.append(last, 1.0)), axis=1)
    # A step that holds a single float has both its knots there.
    knots, first = np.unique(ends.ravel(), return_index=True)
    return CalibrationMap(knots, np.repeat(held, 2)[first])


Tails = Literal["proportional", "clip", "unit", "extend"]
"""Beyond the outermost anchors the map goes on in proportion to the score ("proportional", keeps
order and the local ratio), stays flat ("clip"), runs to (0, 0) and (1, 1) ("unit"), or extends the
outermost segments ("extend"); always cut to [0, 1]."""


def knots_with_tails(anchors: Floats, values: Floats, tails: Tails) -> CalibrationMap:
    """The map through anchors that increase strictly in [0, 1], shape (k,), k >= 1.

    Source: the gap "x outside [m_0, m_last]" of Algorithm 1, Deng et al. With one anchor at
    score 0 there is no proportion, and the map is constant; "extend" needs two anchors and is
    proportional with one. Raises ValueError without an anchor.
    """
    if not len(anchors):
        raise ValueError("anchors: there are none, a map needs one at least")
    at_0, at_1 = _reached(anchors.tolist(), values.tolist(), tails)
    low_knots, low_values = _line_to_edge(float(anchors[0]), float(values[0]), 0.0, at_0)
    high_knots, high_values = _line_to_edge(float(anchors[-1]), float(values[-1]), 1.0, at_1)
    return CalibrationMap(
        np.concatenate((low_knots[::-1], anchors, high_knots)),
        np.concatenate((low_values[::-1], values, high_values)),
    )


def _reached(anchors: list[float], values: list[float], tails: Tails) -> tuple[float, float]:
    """Values of the two tails at scores 0 and 1, not yet cut to [0, 1]."""
    if tails == "clip":
        return values[0], values[-1]
    if tails == "unit":
        return 0.0, 1.0
    if tails == "extend" and len(anchors) > 1:
        first = (values[1] - values[0]) / (anchors[1] - anchors[0])
        last = (values[-1] - values[-2]) / (anchors[-1] - anchors[-2])
        return values[0] - first * anchors[0], values[-1] + last * (1 - anchors[-1])
    if anchors[-1] == 0:
        return values[-1], values[-1]
    return 0.0, values[-1] / anchors[-1]


def _line_to_edge(
    anchor: float, value: float, edge: float, reached: float
) -> tuple[list[float], list[float]]:
    """Knots from an anchor (not included) outward to score 0 or 1, cut to values in [0, 1]."""
    if anchor == edge:
        return [], []
    if 0.0 <= reached <= 1.0:
        return [edge], [reached]
    limit = float(reached > 1.0)
    crossing = anchor + (limit - value) / (reached - value) * (edge - anchor)
    if crossing == anchor:
        crossing = nextafter(anchor, edge)
    return ([crossing, edge], [limit, limit]) if crossing != edge else ([edge], [limit])


@dataclass(frozen=True, slots=True, eq=False)
class MapColumns:
    """Knots of each map, (c,), at least 2; knots and values of all maps end to end, (k,) each.

    Not checked: the atlas does that.
    """

    lengths: Integers
    knots: Floats
    values: Floats

    @classmethod
    def of_maps(cls, maps: Sequence[CalibrationMap]) -> Self:
        """The columns of maps."""
        return cls(
            np.array([len(each.knots) for each in maps], np.int64),
            np.concatenate([np.empty(0), *(each.knots for each in maps)]),
            np.concatenate([np.empty(0), *(each.values for each in maps)]),
        )

    @classmethod
    def end_to_end(cls, parts: Sequence["MapColumns"], scratch: Scratch = IN_MEMORY) -> Self:
        """The maps of all parts, one part behind the other."""
        joined = scratch.joined
        return cls(
            joined([np.empty(0, np.int64), *(part.lengths for part in parts)]),
            joined([np.empty(0), *(part.knots for part in parts)]),
            joined([np.empty(0), *(part.values for part in parts)]),
        )

    def taken(self, order: Integers) -> "MapColumns":
        """These maps, (n,), in this order; a view where they are neighbours."""
        if len(order) and (np.diff(order) == 1).all():
            return self.run(int(order[0]), int(order[-1]) + 1)
        starts = np.cumsum(self.lengths) - self.lengths
        lengths = self.lengths[order]
        places = places_of(starts[order], lengths)
        return MapColumns(lengths, self.knots[places], self.values[places])

    @property
    def only(self) -> CalibrationMap:
        """The map, where there is one."""
        return CalibrationMap(self.knots, self.values)

    def run(self, first: int, behind: int) -> "MapColumns":
        """A view of the maps of first <= number < behind."""
        start = int(self.lengths[:first].sum())
        lengths = self.lengths[first:behind]
        span = slice(start, start + int(lengths.sum()))
        return MapColumns(lengths, self.knots[span], self.values[span])

    def __len__(self) -> int:
        return len(self.lengths)


PLACES: Final = 8
"""Scores at which a map's standard deviation is kept; between them it is interpolated."""

_SMALLEST, _LARGEST = 1e-3, 4.0
_CODES = 255
_RATIO = np.log(_LARGEST / _SMALLEST) / _CODES
_HEAD = struct.Struct("<dd")
# A score at the last place must not look behind it.
_BELOW_ONE = 1 - 1e-12


@lru_cache(1024)
def normal_quantiles(levels: tuple[float, ...]) -> Floats:
    """The quantiles of a standard normal variable at levels in (0, 1), (k,); not to be written."""
    found = np.array([*map(NormalDist().inv_cdf, levels)])
    found.flags.writeable = False
    return found


class Spreads:
    """Posterior standard deviations of the log-odds that n maps give, at `PLACES` log-odds of the
    score from `low` to `high`, the same for all maps; a byte each, 3 % apart; immutable.

    >>> spreads = Spreads.of(-6.0, -1.0, np.full((1, PLACES), 0.2))
    >>> spreads.at(np.array([0]), np.array([0.01])).round(2).tolist()
    [0.2]
    """

    __slots__ = ("_grid", "_table", "codes", "high", "low")

    codes: Final[NDArray[np.uint8]]

    def __init__(self, low: float, high: float, codes: NDArray[np.uint8]) -> None:
        """Codes, (n, 8); ValueError unless -40 <= low < high <= 40."""
        if not -40.0 <= low < high <= 40.0:
            raise ValueError(f"spreads: from {low} to {high}: must rise, and be in [-40, 40]")
        self.low, self.high, self.codes = low, high, codes
        scale = (PLACES - 1) / (high - low) * _BELOW_ONE
        # Last the scores between which the log-odds are those of places.
        self._grid = np.array([low, scale, *(1 / (1 + np.exp(-end)) for end in (low, high))])
        table = _SMALLEST * np.exp(_RATIO * np.arange(_CODES + 1))
        self._table: Singles = table.astype(np.float32)[codes]

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
        low, scale, lowest, highest = self._grid.tolist()
        inside = np.minimum(np.maximum(scores, lowest), highest)
        along = np.log(inside / (1.0 - inside))
        along -= low
        along *= scale
        places = along.astype(np.int64)
        along -= places
        before, after = self._table[rows, places], self._table[rows, places + 1]
        found: Floats = before + along * (after - before)
        return found

    def quantiles(
        self,
        rows: Integers,
        scores: Floats,
        probabilities: Floats,
        levels: Sequence[float],
        variances: Floats | None = None,
    ) -> Floats:
        """`quantiles_of` the probabilities that maps give scores, (n,) each, (k, n); with further
        variances of the log-odds, (n,). Compiled to a bit or two the same as in numpy."""
        if fill_quantiles is None:
            deviations = self.at(rows, scores)
            if variances is not None:
                deviations = np.sqrt(deviations * deviations + variances)
            return quantiles_of(probabilities, deviations, levels)
        factors = normal_quantiles(tuple(levels))
        found = np.empty(len(factors) * len(rows))
        variances = None if variances is None else np.ascontiguousarray(variances)
        given = map(np.ascontiguousarray, (rows, scores, probabilities))
        fill_quantiles(self._table, self._grid, *given, variances, factors, found)
        return found.reshape(len(factors), len(rows))

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
    factors = normal_quantiles(tuple(levels))
    # Of all levels at once: of a hundred scores each call costs more than its numbers.
    odds: Floats = factors[:, None] * deviations
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
