"""The axis of weight: where each run begins, counted in whole numbers."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.sums import sum_between


@dataclass(frozen=True, slots=True, eq=False)
class WeightAxis:
    """The weight before each run, all groups laid end to end, in ticks.

    A running sum of floats would round a small campaign to the size of all that came before it.
    Whole numbers do not, so every group counts in ticks of its own, 2 ** -exponents[g] samples:
    the finest with which all groups fit on one axis of 64 bits. 10,000 groups leave each at least
    2 ** 46 ticks. Whole-number weights are exact up to there, others rounded by half a tick.

    Attributes
    ----------
    reached : (r + 1,) ticks before each run, and in all.
    exponents : (n_groups,) binary digits of a sample behind the point.
    """

    reached: Integers
    exponents: Integers

    @classmethod
    def of(cls, weights: Floats, bounds: Integers) -> Self:
        """The axis of runs of these weights, (r,), group g being runs bounds[g]:bounds[g + 1]."""
        totals = sum_between(weights, bounds[:-1], bounds[1:])
        room = min(52, 61 - len(totals).bit_length())
        exponents = room - np.frexp(totals)[1].astype(np.int64)
        ticks = np.ldexp(weights, np.repeat(exponents, np.diff(bounds)))
        reached = np.zeros(len(weights) + 1, np.int64)
        reached[1:] = np.rint(ticks, out=ticks)
        return cls(np.cumsum(reached, out=reached), exponents)
