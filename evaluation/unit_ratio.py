"""A ratio of two sums over units, and how far it is known."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import stdtrit

from calibrators.samples import Floats
from evaluation.ratio import ratio


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the ends of its confidence interval, which are nan where it has none."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class UnitRatio:
    """sum x / sum y over units that are independent of one another.

    By the delta method the logarithm of the ratio moves by x_u / sum x - y_u / sum y when unit u
    is drawn once more, so its variance is G / (G - 1) times the sum of the squares of that, with G
    units. It has no unit of money, and intervals on the scale of logarithms stay above 0.

    Attributes
    ----------
    value : the ratio; over 0 it is infinite, and nan for 0 over 0.
    influences : (n_units,) as above, times the root of G / (G - 1); nan when a sum is 0 or fewer
        than two units take part, because then nothing says how far the ratio is known.
    units : G, how many take part.
    """

    value: float
    influences: Floats
    units: int

    @classmethod
    def of(cls, x: Floats, y: Floats, units: int) -> Self:
        """The ratio of x and y, (n_units,) each at least 0, of which `units` take part."""
        above, below = float(x.sum()), float(y.sum())
        if above == 0.0 or below == 0.0 or units < 2:
            influences = np.full(len(x), np.nan)
        else:
            influences = (x / above - y / below) * np.sqrt(units / (units - 1))
        return cls(ratio(above, below), influences, units)

    def estimate(self, confidence: float, factor: float = 1.0) -> Estimate:
        """The ratio times a factor, with Student's interval."""
        spread = _spread(self.influences, self.units, confidence)
        value = factor * self.value
        return Estimate(value, value / spread, value * spread)

    def lift_over(self, other: Self, confidence: float) -> Estimate:
        """How much higher the ratio is than another over the same units, as a share of that.

        A unit that takes part in both, such as a campaign in two arms of a test, counts with the
        difference of its two influences, so what it does to both cancels.
        """
        comparable = 0.0 < other.value < float("inf")
        value = self.value / other.value if comparable else float("nan")
        differences = self.influences - other.influences
        spread = _spread(differences, min(self.units, other.units), confidence)
        return Estimate(value - 1.0, value / spread - 1.0, value * spread - 1.0)


def _spread(influences: Floats, units: int, confidence: float) -> float:
    """The factor from the middle of an interval to its ends; nan without influences."""
    squares = influences**2
    variance = float(squares.sum())
    if not variance > 0.0:
        return float("nan") if np.isnan(variance) else 1.0
    # As many as would carry the variance if each carried as much: when few clicks bring most of
    # the money, few units say how far the ratio is known, however many there are.
    carriers = variance**2 / float((squares**2).sum())
    quantile = stdtrit(min(units - 1, carriers), 0.5 + confidence / 2.0)
    with np.errstate(over="ignore"):
        return float(np.exp(quantile * variance**0.5))
