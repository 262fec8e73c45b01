"""Maps that leave their bounds are moved inside."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrators.guard.bounds import Bounds
from calibrators.guard.thinning import thinned
from calibrators.map_blocks import MapBlocks
from calibrators.map_columns import MapColumns
from calibrators.samples import Floats, Integers

_ROUNDING = 1e-12

_MAPS = 256
"""Maps looked at in one go: what is worked out for each of their knots stays in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Maps that had to be moved: their numbers ascending, (k,), and what became of them."""

    numbers: Integers
    maps: MapColumns


_NONE: Final = Moved(np.empty(0, np.int64), MapColumns.of_maps([]))


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """Knots of all that matters to each map: whose, where, and whether it is one of its own."""

    maps: Integers
    scores: Floats
    own: NDArray[np.bool_]

    @classmethod
    def of(cls, chosen: MapColumns, served: MapColumns, reach: Floats) -> "_Points":
        numbers = np.arange(len(chosen))
        lengths = (chosen.lengths, served.lengths, np.full(len(chosen), len(reach)))
        scores = np.concatenate((chosen.knots, served.knots, np.tile(reach, len(chosen))))
        maps = np.concatenate([np.repeat(numbers, each) for each in lengths])
        return cls(maps, scores, np.arange(len(scores)) < len(chosen.knots))

    def taken(self, places: Integers | NDArray[np.bool_]) -> "_Points":
        return _Points(self.maps[places], self.scores[places], self.own[places])

    def ordered(self) -> "_Points":
        """By map and score, each score of a map once."""
        in_order = self.taken(np.lexsort((~self.own, self.scores, self.maps)))
        new = (np.diff(in_order.maps) > 0) | (np.diff(in_order.scores) > 0)
        return in_order.taken(np.append(True, new))

    def needed(self, outside: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A map's own knots, and all knots of those of its pieces that leave the bounds."""
        firsts = np.flatnonzero(self.own)
        leaves = np.logical_or.reduceat(outside, firsts)
        # A piece also leaves where the next one begins; behind a map's last knot there is none.
        leaves[:-1] |= outside[firsts[1:]] & (self.scores[firsts[:-1]] < 1.0)
        needed: NDArray[np.bool_] = self.own | leaves[np.cumsum(self.own) - 1]
        return needed


def bounded(chosen: MapColumns, bounds: Bounds, most: int) -> Moved:
    """Those of the maps that leave their bounds somewhere, moved inside; of at most `most` knots
    where these can hold the bounds.

    Exact at every score, not only at the knots: between two knots of all maps involved each is a
    straight line, over which the upper bound is concave and the lower one convex; so a line that
    starts and ends between them never leaves them. Increasing maps stay increasing, as the bounds
    around increasing maps increase.
    """
    served, reach = bounds.served_maps, bounds.knots
    parts = [_NONE]
    for first in range(0, len(chosen), _MAPS):
        run = slice(first, first + _MAPS)
        points = _Points.of(chosen.run(run.start, run.stop), served.run(run.start, run.stop), reach)
        moved = _bounded(chosen.run(run.start, run.stop), points, bounds.of(run), most)
        parts.append(Moved(first + moved.numbers, moved.maps))
    numbers = np.concatenate([part.numbers for part in parts])
    return Moved(numbers, MapColumns.end_to_end([part.maps for part in parts]))


def _bounded(chosen: MapColumns, points: _Points, bounds: Bounds, most: int) -> Moved:
    blocks = MapBlocks(chosen.lengths, chosen.knots, chosen.values)
    outside = _outside(blocks.look_up(points.maps, points.scores), *_limits(points, bounds))
    if not outside.any():
        return _NONE
    marked = np.zeros(len(chosen), bool)
    marked[points.maps[outside]] = True
    return _mended(blocks, points.taken(marked[points.maps]).ordered(), bounds, most)


def _mended(blocks: MapBlocks, points: _Points, bounds: Bounds, most: int) -> Moved:
    lower, upper = _limits(points, bounds)
    before = blocks.look_up(points.maps, points.scores)
    values = _levelled(np.clip(before, lower, upper), points.maps)
    needed = points.needed(_outside(before, lower, upper))
    long = (np.bincount(points.maps, needed) > most)[points.maps]
    if long.any():
        of_long = points.taken(long)
        limits = (values[long], lower[long], upper[long])
        needed[long] = thinned(of_long.maps, of_long.scores, *limits, most)
    numbers, lengths = np.unique(points.maps[needed], return_counts=True)
    return Moved(numbers, MapColumns(lengths, points.scores[needed], values[needed]))


def _levelled(values: Floats, maps: Integers) -> Floats:
    """The values without falls inside a map that are none but for rounding."""
    while True:
        steps = np.diff(values)
        falls = np.flatnonzero((steps < 0) & (steps > -_ROUNDING) & (np.diff(maps) == 0))
        if not falls.size:
            return values
        values[falls + 1] = values[falls]


def _limits(points: _Points, bounds: Bounds) -> tuple[Floats, Floats]:
    return bounds.at(points.maps, points.scores)


def _outside(found: Floats, lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    outside: NDArray[np.bool_] = (found < lower - _ROUNDING) | (found > upper + _ROUNDING)
    return outside
