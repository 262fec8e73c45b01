"""How far maps may lie from what has served so far, and from the target's map; what leaves that is
moved inside, and drawn through few knots (Douglas-Peucker).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrators.guard.rules import NewestHour, log_odds_of
from calibrators.maps.atlas import Atlas
from calibrators.maps.calibration_map import CalibrationMap, MapColumns
from calibrators.maps.look_up import MapRows
from calibrators.samples import MANY, Floats, Integers, Scratch

Flags = NDArray[np.bool_]

MARGIN = 1e-6
"""Added to every bound, so that a map that is exactly 0 or 1 somewhere can leave it again."""


def raised(probabilities: Floats, factor: float) -> Floats:
    """The upper bound: odds times the factor. Concave in the probability."""
    return np.minimum(factor * probabilities / (1.0 + (factor - 1.0) * probabilities) + MARGIN, 1.0)


def lowered(probabilities: Floats, factor: float) -> Floats:
    """The lower bound: odds divided by the factor. Convex in the probability."""
    return np.maximum(probabilities / (factor - (factor - 1.0) * probabilities) - MARGIN, 0.0)


LEAST = 0.01
"""Less than this share of the hour's expected positives moved is not material."""


def campaigns_changed(
    hour: NewestHour, campaigns: Sequence[str], chosen: MapColumns, moved: MapColumns
) -> set[str]:
    """Those of the campaigns, (k,), whose scores of the hour have other probabilities by the map
    that was moved, (k,), than by the one that was chosen, (k,)."""
    if not campaigns:
        return set()
    row_of = {name: row for row, name in enumerate(campaigns)}
    before, after = map(MapRows.of, (chosen, moved))
    found: set[str] = set()
    for table, evidence in zip(hour.tables, hour.evidence, strict=True):
        of_table = [row_of.get(name, -1) for name in table.campaigns]
        rows = np.array(of_table, np.int64)[evidence.rows]
        ours = rows >= 0
        rows, scores, weights = rows[ours], evidence.scores[ours], evidence.weights[ours]
        was, now = before.look_up(rows, scores), after.look_up(rows, scores)
        changed = materially_changed(was, now, weights, rows, len(campaigns))
        found.update(campaigns[row] for row in np.flatnonzero(changed).tolist())
    return found


def materially_changed(
    before: Floats, after: Floats, weights: Floats, rows: Integers, campaigns: int
) -> Flags:
    """Of which campaigns, (c,), the probabilities of the cells, (m,), have changed that much."""
    moved = np.bincount(rows, weights * np.abs(after - before), campaigns)
    expected = np.bincount(rows, weights * before, campaigns)
    changed: Flags = moved > LEAST * expected
    return changed


_OUTSIDE = 1e6
"""Added to the error of a knot out of bounds, so that it comes before any that is not."""


def simplified(
    maps: Integers, knots: Floats, values: Floats, lower: Floats, upper: Floats, most: int
) -> Flags:
    """Which of the knots, (k,), to draw each map through: at most `most`, if that holds the bounds
    at all of them; more where it does not. `maps`, (k,), says whose they are, and ascends.

    Of Douglas and Peucker (1973), in rounds: from the two ends on, the knot of each piece joins
    where what is drawn so far errs most in log-odds, those out of bounds first. All maps take
    their rounds together, each until nothing joins any more.
    """
    taken = np.zeros(len(knots), bool)
    if not len(knots):
        return taken
    ends = np.flatnonzero(np.diff(maps))
    taken[np.concatenate(([0], ends, ends + 1, [len(knots) - 1]))] = True
    drawing = _Drawing(maps, knots, values, lower, upper, log_odds_of(values))
    places = np.arange(len(knots))
    while len(places):
        joining = drawing.joining(taken[places], most)
        taken[places[joining]] = True
        growing = np.isin(drawing.maps, drawing.maps[joining])
        drawing, places = drawing.of(growing), places[growing]
    return taken


class _Drawing(NamedTuple):
    """Knots of maps, (k,) each: whose, where, their values and bounds, and the log-odds wanted."""

    maps: Integers
    knots: Floats
    values: Floats
    lower: Floats
    upper: Floats
    wanted: Floats

    def of(self, chosen: Flags) -> "_Drawing":
        """Some of the maps."""
        return _Drawing(self.maps[chosen], *(column[chosen] for column in self[1:]))

    def joining(self, taken: Flags, most: int) -> Integers:
        """The knots that join those that are taken."""
        drawn = self._drawn(taken)
        outside = (drawn < self.lower - _ROUNDING) | (drawn > self.upper + _ROUNDING)
        # Rounding, which differs by how campaigns are divided, must not say which joins.
        errors = np.round(np.abs(log_odds_of(drawn) - self.wanted), 6) + _OUTSIDE * outside
        found = _worst(np.where(taken, 0.0, errors), np.flatnonzero(taken))
        maps = self.maps[found]
        left = most - np.bincount(self.maps[taken], minlength=self.maps[-1] + 1)
        places = np.maximum(left, np.bincount(maps[outside[found]], minlength=len(left)))
        order = np.lexsort((-errors[found], maps))
        ranks = np.arange(len(found)) - np.searchsorted(maps, maps)
        joining: Integers = found[order[ranks < places[maps]]]
        return joining

    def _drawn(self, taken: Flags) -> Floats:
        """The lines through the knots that are taken, as `np.interp` draws them."""
        places, pieces = np.flatnonzero(taken), np.cumsum(taken) - 1
        left, right = places[:-1], places[1:]
        # Between the last knot of a map and the first of the next nothing is drawn.
        runs = np.maximum(self.knots[right] - self.knots[left], np.finfo(np.float64).tiny)
        slopes = np.append((self.values[right] - self.values[left]) / runs, 0.0)
        starts = places[pieces]
        drawn = slopes[pieces] * (self.knots - self.knots[starts]) + self.values[starts]
        return np.where(taken, self.values, drawn)


def _worst(errors: Floats, starts: Integers) -> Integers:
    """The first knot of the largest error in each piece that has one, ascending."""
    largest = np.maximum.reduceat(errors, starts)
    pieces = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(errors))))
    found = np.flatnonzero((errors > 0) & (errors == largest[pieces]))
    return found[np.append(True, np.diff(pieces[found]) > 0)] if len(found) else found


NEAR = 2.0
"""The reach is around what the target's map says of scores up to so many times smaller or larger:
at the ends of its range, where it has little traffic, it may fall or rise steeply."""

_SKETCH = 16
"""Knots of the target's map that the reach is drawn around: it may have thousands, each of which
would become a knot of whatever has to be moved, and a factor of 27 asks for no more."""


class Reach:
    """What the target's map says of smaller and of larger scores, and the factor in odds by which
    a map may lie beyond."""

    def __init__(self, parent: CalibrationMap, factor: float) -> None:
        drawn = sketched(parent)
        self.smaller, self.larger = _stretched(drawn, NEAR), _stretched(drawn, 1.0 / NEAR)
        self.factor = factor

    @property
    def knots(self) -> Floats:
        """Where either may bend."""
        return np.union1d(self.smaller.knots, self.larger.knots)

    def at(self, scores: Floats) -> tuple[Floats, Floats]:
        """The lowest and the highest probability at each score, (m,)."""
        lower, upper = self.smaller(scores), self.larger(scores)
        return lowered(lower, self.factor), raised(upper, self.factor)


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What n maps must stay near: map i of what served by row `served[i]` of the atlas in force,
    moved into reach where it lies outside; and in reach of the target's map, where there is one
    above them."""

    in_force: Atlas
    served: Integers
    step: float
    reach: Reach | None = None

    @property
    def knots(self) -> Floats:
        """Where the bounds of all maps may bend, besides the knots of those that served."""
        return np.empty(0) if self.reach is None else self.reach.knots

    def at(self, maps: Integers, scores: Floats) -> tuple[Floats, Floats]:
        """The lowest and the highest probability of each map at each score, (m,)."""
        served = self.in_force.look_up(self.served[maps], scores)
        if self.reach is None:
            return lowered(served, self.step), raised(served, self.step)
        lowest, highest = self.reach.at(scores)
        served = np.clip(served, lowest, highest)
        lower, upper = lowered(served, self.step), raised(served, self.step)
        return np.maximum(lower, lowest), np.minimum(upper, highest)


def sketched(parent: CalibrationMap) -> CalibrationMap:
    """A map drawn through at most `_SKETCH` of its knots."""
    if len(parent.knots) <= _SKETCH:
        return parent
    anything = np.zeros_like(parent.values)
    one = np.zeros(len(parent.knots), np.int64)
    kept = simplified(one, parent.knots, parent.values, anything, anything + 1.0, _SKETCH)
    return CalibrationMap(parent.knots[kept], parent.values[kept])


def _stretched(parent: CalibrationMap, factor: float) -> CalibrationMap:
    """The map of score / factor, which stays what it is at 1 beyond."""
    reached = parent.knots * factor
    # The smallest knots may fall together: what comes behind them counts.
    kept = np.append(np.diff(reached) > 0, True) & (reached < 1.0)
    last = parent.at(min(1.0 / factor, 1.0))
    return CalibrationMap(np.append(reached[kept], 1.0), np.append(parent.values[kept], last))


_ROUNDING = 1e-12

_MAPS = 256
"""Maps looked at in one go: what is worked out for each of their knots stays in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class GatheredMaps:
    """Maps out of several sources, a kilobyte each, made when they are asked for: the source of
    each and its number there, (n,)."""

    sources: Sequence[Callable[[Integers], MapColumns]]
    of_maps: Integers
    numbers: Integers

    def taken(self, order: Integers) -> MapColumns:
        """These maps, (m,), in this order."""
        runs = (order[first : first + _MAPS] for first in range(0, len(order), _MAPS))
        scratch = Scratch(len(order) >= MANY)
        return MapColumns.end_to_end(scratch.kept(map(self._run, runs)), scratch)

    def _run(self, order: Integers) -> MapColumns:
        of_maps, numbers = self.of_maps[order], self.numbers[order]
        parts = [source(numbers[of_maps == place]) for place, source in enumerate(self.sources)]
        # Where each of them has come to stand.
        behind = np.argsort(np.argsort(of_maps, kind="stable"))
        return MapColumns.end_to_end(parts).taken(behind)


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Maps that had to be moved: their numbers ascending, (k,), and what became of them."""

    numbers: Integers
    maps: MapColumns

    def laid_on(self, maps: Callable[[Integers], MapColumns], count: int) -> GatheredMaps:
        """So many maps, those that had to be moved in place of what they were."""
        of_maps, numbers = np.zeros(count, np.int64), np.arange(count)
        of_maps[self.numbers], numbers[self.numbers] = 1, np.arange(len(self.numbers))
        return GatheredMaps((maps, self.maps.taken), of_maps, numbers)


_NONE: Final = Moved(np.empty(0, np.int64), MapColumns.of_maps([]))


class _Points(NamedTuple):
    """Knots of all that matters to each map: whose, where, and whether it is one of its own."""

    maps: Integers
    scores: Floats
    own: Flags

    @classmethod
    def of(cls, chosen: MapColumns, served: MapColumns, reach: Floats) -> "_Points":
        numbers = np.arange(len(chosen))
        lengths = (chosen.lengths, served.lengths, np.full(len(chosen), len(reach)))
        scores = np.concatenate((chosen.knots, served.knots, np.tile(reach, len(chosen))))
        maps = np.concatenate([np.repeat(numbers, each) for each in lengths])
        return cls(maps, scores, np.arange(len(scores)) < len(chosen.knots))

    def taken(self, places: Integers | Flags) -> "_Points":
        return _Points(self.maps[places], self.scores[places], self.own[places])

    def ordered(self) -> "_Points":
        """By map and score, each score of a map once."""
        in_order = self.taken(np.lexsort((~self.own, self.scores, self.maps)))
        new = (np.diff(in_order.maps) > 0) | (np.diff(in_order.scores) > 0)
        return in_order.taken(np.append(True, new))

    def needed(self, outside: Flags) -> Flags:
        """A map's own knots, and all knots of those of its pieces that leave the bounds."""
        firsts = np.flatnonzero(self.own)
        leaves = np.logical_or.reduceat(outside, firsts)
        # A piece also leaves where the next one begins; behind a map's last knot there is none.
        leaves[:-1] |= outside[firsts[1:]] & (self.scores[firsts[:-1]] < 1.0)
        needed: Flags = self.own | leaves[np.cumsum(self.own) - 1]
        return needed


def bounded(chosen: MapColumns | GatheredMaps, bounds: Bounds, most: int) -> Moved:
    """Those of the maps that leave their bounds somewhere, moved inside; of at most `most` knots
    where these can hold the bounds.

    Exact at every score, not only at the knots: between two knots of all maps involved each is a
    straight line, over which the upper bound is concave and the lower one convex; so a line that
    starts and ends between them never leaves them. Increasing maps stay increasing, as the bounds
    around increasing maps increase.
    """
    parts = [_NONE]
    for first in range(0, len(bounds.served), _MAPS):
        of_run = replace(bounds, served=bounds.served[first : first + _MAPS])
        maps = chosen.taken(np.arange(first, first + len(of_run.served)))
        moved = _bounded(maps, of_run, most)
        parts.append(Moved(first + moved.numbers, moved.maps))
    numbers = np.concatenate([part.numbers for part in parts])
    return Moved(numbers, MapColumns.end_to_end([part.maps for part in parts]))


def _bounded(chosen: MapColumns, bounds: Bounds, most: int) -> Moved:
    maps = MapRows.of(chosen)
    points = _Points.of(chosen, bounds.in_force.columns(bounds.served), bounds.knots)
    outside = _outside(
        maps.look_up(points.maps, points.scores), *bounds.at(points.maps, points.scores)
    )
    if not outside.any():
        return _NONE
    marked = np.zeros(len(chosen), bool)
    marked[points.maps[outside]] = True
    return _mended(maps, points.taken(marked[points.maps]).ordered(), bounds, most)


def _mended(maps: MapRows, points: _Points, bounds: Bounds, most: int) -> Moved:
    lower, upper = bounds.at(points.maps, points.scores)
    before = maps.look_up(points.maps, points.scores)
    values = _levelled(np.clip(before, lower, upper), points.maps)
    needed = points.needed(_outside(before, lower, upper))
    long = (np.bincount(points.maps, needed) > most)[points.maps]
    if long.any():
        of_long = points.taken(long)
        limits = (values[long], lower[long], upper[long])
        needed[long] = simplified(of_long.maps, of_long.scores, *limits, most)
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


def _outside(found: Floats, lower: Floats, upper: Floats) -> Flags:
    outside: Flags = (found < lower - _ROUNDING) | (found > upper + _ROUNDING)
    return outside
