"""Runs of equal probability, sorted by group: the sufficient statistic of most metrics.

A run is all samples of one group and one score, and its weight; with the positives of each run that
is all that Cal-N, GC-N and AUC need, whether samples, bins or cells of scores are sorted.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.metrics.sums import sum_between


@dataclass(frozen=True, slots=True, eq=False)
class WeightAxis:
    """The weight before each run, all groups laid end to end, in ticks.

    A running sum of floats would round a small campaign to the size of all that came before it.
    Whole numbers do not, so every group counts in ticks of its own, 2 ** -exponents[g] samples:
    the finest with which all groups fit on one axis of 64 bits. 10,000 groups leave each at least
    2 ** 46 ticks. Whole-number weights are exact up to there, others rounded by half a tick.

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


Groups = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Runs:
    """Samples sorted by group and probability, those of one probability taken together.

    A calibration map has flat stretches, so many samples share a probability; no metric may
    depend on which of them a file lists first. Rows without weight are left out.

    order : (k,) the rows as sorted; a slice of all when they came so, which spares every copy.
    starts : (r,) where each run begins among the sorted rows; None when each row is a run.
    bounds : (n_groups + 1,) the runs of group g are bounds[g]:bounds[g + 1].
    row_counts : (n_groups,) rows in each group.
    probabilities, weights : (r,) of each run.
    """

    order: Integers | slice
    starts: Integers | None
    bounds: Integers
    row_counts: Integers
    probabilities: Floats
    weights: Floats

    @classmethod
    def of(cls, probabilities: Floats, weights: Floats, groups: Groups, n_groups: int) -> Self:
        """The runs of n samples; groups, shape (n,), say which of 0..n_groups-1 each is in."""
        order = _sorted_rows(probabilities, weights, groups, n_groups)
        p, w, g = probabilities[order], weights[order], groups[order]
        # A narrow type may hold every group and not their number; its own spares a copy of all.
        kind = np.promote_types(g.dtype, np.min_scalar_type(n_groups))
        bounds = np.searchsorted(g, np.arange(n_groups + 1, dtype=kind))
        row_counts = np.diff(bounds)
        opens = (p[1:] != p[:-1]) | (g[1:] != g[:-1])
        if opens.all():
            return cls(order, None, bounds, row_counts, p, w)
        starts = np.flatnonzero(np.concatenate((np.ones(1, bool), opens)))
        bounds = np.searchsorted(starts, bounds)
        return cls(order, starts, bounds, row_counts, p[starts], np.add.reduceat(w, starts))

    @classmethod
    def of_one_group(cls, probabilities: Floats, weights: Floats) -> Self:
        """The runs of n samples that all belong together."""
        return cls.of(probabilities, weights, np.zeros(len(probabilities), np.int8), 1)

    def sums(self, values: Floats) -> Floats:
        """Sum of the rows' values, shape (n,), over each run, shape (r,); may be a view of them."""
        in_order = values[self.order]
        return in_order if self.starts is None else np.add.reduceat(in_order, self.starts)

    def group_sums(self, run_values: Floats) -> Floats:
        """Sum of the runs' values, shape (r,), over each group, shape (n_groups,)."""
        return sum_between(run_values, self.bounds[:-1], self.bounds[1:])

    def holding(self, places: Integers) -> Integers:
        """The run that each place among the sorted rows belongs to, in the places' shape."""
        if self.starts is None:
            return places
        return np.searchsorted(self.starts, places, side="right") - 1

    @property
    def sample_counts(self) -> Floats:
        """Samples in each group, shape (n_groups,): rows, or their total weight where more."""
        return np.maximum(self.row_counts, self.group_sums(self.weights))

    @cached_property
    def expected(self) -> Floats:
        """Weight times probability of each run, shape (r,)."""
        return self.weights * self.probabilities

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Whether all weights of a group are whole numbers, shape (n_groups,)."""
        return np.equal(self.group_sums(self.weights - np.floor(self.weights)), 0.0)

    @cached_property
    def axis(self) -> WeightAxis:
        """Where each run begins, by weight."""
        return WeightAxis.of(self.weights, self.bounds)


def _sorted_rows(
    probabilities: Floats, weights: Floats, groups: Groups, n_groups: int
) -> Integers | slice:
    held = weights > 0.0
    if held.all():
        # Bins arrive sorted, and looking is a hundred times cheaper than sorting.
        if _ascends(probabilities, groups):
            return slice(None)
        return _sorting(probabilities, groups, n_groups)
    rows = np.flatnonzero(held)
    p, g = probabilities[rows], groups[rows]
    return rows if _ascends(p, g) else rows[_sorting(p, g, n_groups)]


def _ascends(p: Floats, g: Groups) -> bool:
    in_order: NDArray[np.bool_] = (g[1:] > g[:-1]) | ((g[1:] == g[:-1]) & (p[1:] >= p[:-1]))
    return bool(in_order.all())


def _sorting(p: Floats, g: Groups, n_groups: int) -> Integers:
    by_probability = np.argsort(p)
    if n_groups == 1:
        return by_probability
    # numpy sorts integers of 16 bits by radix, several times faster than longer ones.
    short = g[by_probability].astype(np.min_scalar_type(n_groups))
    return by_probability[np.argsort(short, kind="stable")]


def ranking(scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The scores from lowest to highest, (n,), and the weight before each and in all, (n + 1,)."""
    if (weights == 1.0).all():
        return np.sort(scores), np.arange(len(scores) + 1, dtype=np.float64)
    order = np.argsort(scores)
    reached = np.zeros(len(scores) + 1)
    np.cumsum(weights[order], out=reached[1:])
    return scores[order], reached
