"""Fewer knots for maps that have to stay between bounds."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.guard.evidence import log_odds_of
from calibrators.samples import Floats, Integers

_ROUNDING = 1e-12
_OUTSIDE = 1e6
"""Added to the error of a knot out of bounds, so that it comes before any that is not."""

Flags = NDArray[np.bool_]


def thinned(
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


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Knots of maps, (k,) each: whose, where, their values and bounds, and the log-odds wanted."""

    maps: Integers
    knots: Floats
    values: Floats
    lower: Floats
    upper: Floats
    wanted: Floats

    def of(self, chosen: Flags) -> Self:
        """Some of the maps."""
        return type(self)(
            self.maps[chosen],
            self.knots[chosen],
            self.values[chosen],
            self.lower[chosen],
            self.upper[chosen],
            self.wanted[chosen],
        )

    def joining(self, taken: Flags, most: int) -> Integers:
        """The knots that join those that are taken."""
        drawn = self._drawn(taken)
        outside = (drawn < self.lower - _ROUNDING) | (drawn > self.upper + _ROUNDING)
        errors = np.abs(log_odds_of(drawn) - self.wanted) + _OUTSIDE * outside
        found = _worst(np.where(taken, 0.0, errors), np.flatnonzero(taken))
        maps = self.maps[found]
        left = most - np.bincount(self.maps[taken], minlength=self.maps[-1] + 1)
        room = np.maximum(left, np.bincount(maps[outside[found]], minlength=len(left)))
        order = np.lexsort((-errors[found], maps))
        ranks = np.arange(len(found)) - np.searchsorted(maps, maps)
        joining: Integers = found[order[ranks < room[maps]]]
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
