"""How far maps may lie from what has served so far, and from the target's map."""

from dataclasses import dataclass, replace

import numpy as np

from calibrators.atlas import Atlas
from calibrators.calibration_map import CalibrationMap
from calibrators.guard.map_rows import columns_of
from calibrators.guard.odds_band import lowered, raised
from calibrators.guard.thinning import thinned
from calibrators.map_columns import MapColumns
from calibrators.samples import Floats, Integers

NEAR = 2.0
"""The reach is around what the target's map says of scores up to so many times smaller or larger:
at the ends of its range, where it has little traffic, it may fall or rise steeply."""

_SKETCH = 16
"""Knots of the target's map that the reach is drawn around: it may have thousands, each of which
would become a knot of whatever has to be moved, and a factor of 27 asks for no more."""


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """What the target's map says of smaller and of larger scores, and the factor in odds by which
    a map may lie beyond."""

    smaller: CalibrationMap
    larger: CalibrationMap
    factor: float

    @classmethod
    def around(cls, parent: CalibrationMap, factor: float) -> "Reach":
        """Of the target's map."""
        drawn = _sketched(parent)
        return cls(_stretched(drawn, NEAR), _stretched(drawn, 1.0 / NEAR), factor)

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

    def of(self, maps: slice) -> "Bounds":
        """Those of some of the maps, which are counted from 0 again."""
        return replace(self, served=self.served[maps])

    @property
    def served_maps(self) -> MapColumns:
        """What has served so far in the place of each map."""
        return columns_of(self.in_force).taken(self.served)

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


def _sketched(parent: CalibrationMap) -> CalibrationMap:
    if len(parent.knots) <= _SKETCH:
        return parent
    anything = np.zeros_like(parent.values)
    one = np.zeros(len(parent.knots), np.int64)
    kept = thinned(one, parent.knots, parent.values, anything, anything + 1.0, _SKETCH)
    return CalibrationMap(parent.knots[kept], parent.values[kept])


def _stretched(parent: CalibrationMap, factor: float) -> CalibrationMap:
    """The map of score / factor, which stays what it is at 1 beyond."""
    reached = parent.knots * factor
    # The smallest knots may fall together: what comes behind them counts.
    kept = np.append(np.diff(reached) > 0, True) & (reached < 1.0)
    last = parent.at(min(1.0 / factor, 1.0))
    return CalibrationMap(np.append(reached[kept], 1.0), np.append(parent.values[kept], last))
