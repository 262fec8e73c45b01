"""The knots that all campaigns share, and the linear spline on them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from calibrators.samples import Floats, Integers

_SPACING = 0.35
_FEWEST, _MOST = 4, 22


@dataclass(frozen=True)
class Knots:
    """Log-odds (first, first + 1, ... first + count - 1) * spacing.

    They lie on a lattice, so that they seldom change from refit to refit.
    """

    first: int
    count: int
    spacing: float

    @classmethod
    def between(cls, low: float, high: float) -> Self:
        """Knots that span these log-odds, as close as the most that there may be allow."""
        spacing = _SPACING
        while np.ceil(high / spacing) - np.floor(low / spacing) + 1 > _MOST:
            spacing *= 2
        first, last = int(np.floor(low / spacing)), int(np.ceil(high / spacing))
        missing = max(0, _FEWEST - (last - first + 1))
        return cls(first - missing // 2, max(last - first + 1, _FEWEST), spacing)

    @cached_property
    def positions(self) -> Floats:
        """Their log-odds, (k,)."""
        return self.spacing * (self.first + np.arange(self.count, dtype=np.float64))

    def places(self, log_odds: Floats) -> tuple[Integers, Floats]:
        """The knot before each value, (m,), and the weight of the one behind it; beyond the
        outermost knots a spline is constant."""
        at = np.clip(log_odds / self.spacing - self.first, 0.0, self.count - 1.0)
        before = np.minimum(at.astype(np.int64), self.count - 2)
        return before, at - before

    def moved(self, curves: Floats, onto: "Knots") -> Floats:
        """Curves given by their values at these knots, (n, k), at the knots of another set."""
        if self == onto:
            return curves
        before, after = self.places(onto.positions)
        moved: Floats = curves[:, before] * (1 - after) + curves[:, before + 1] * after
        return moved
