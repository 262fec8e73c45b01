"""Places: where some samples stand in the ranking of their group."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.runs import Groups, Runs

Chosen = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where k of n samples stand among all samples of their group, by score.

    Attributes
    ----------
    rows : (k,) the samples, those of one group and score next to each other.
    above : (k,) weight that scores higher, plus half of the weight that scores the same.
    tied : (k,) weight that scores the same, the sample's own included.
    runs : (k,) a number for each group and score, ascending, at least 0.
    ties : indices into the k of those that are not alone with their score.
    totals : (n_groups,) weight of each group.
    row_counts : (n_groups,) samples of each group.
    """

    rows: Integers
    above: Floats
    tied: Floats
    runs: Integers
    ties: Integers
    totals: Floats
    row_counts: Integers

    @classmethod
    def of(
        cls, scores: Floats, weights: Floats, groups: Groups, n_groups: int, chosen: Chosen
    ) -> Self:
        """The places of the chosen, (n,), each in its group of 0..n_groups-1; weights above 0."""
        if n_groups == 1:
            return cls._of_one_group(scores, weights, chosen)
        ranked = Runs.of(scores, weights, groups, n_groups)
        order = ranked.order if isinstance(ranked.order, np.ndarray) else np.arange(len(scores))
        spots = np.flatnonzero(chosen[order])
        runs = ranked.holding(spots)
        return cls(
            rows=order[spots],
            above=weight_above(ranked)[runs],
            tied=ranked.weights[runs],
            runs=runs,
            ties=np.flatnonzero(_row_counts(ranked, len(order))[runs] > 1),
            totals=ranked.group_sums(ranked.weights),
            row_counts=ranked.row_counts,
        )

    @classmethod
    def _of_one_group(cls, scores: Floats, weights: Floats, chosen: Chosen) -> Self:
        # Few are chosen of many: looking them up spares an index of all, and most of the time.
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(scores[rows])]
        ranked, reached = ranking(scores, weights)
        starts = np.searchsorted(ranked, scores[rows], side="left")
        ends = np.searchsorted(ranked, scores[rows], side="right")
        return cls(
            rows=rows,
            above=reached[-1] - 0.5 * (reached[starts] + reached[ends]),
            tied=reached[ends] - reached[starts],
            runs=starts,
            ties=np.flatnonzero(ends - starts > 1),
            totals=reached[-1:],
            row_counts=np.array([len(scores)]),
        )


def weight_above(runs: Runs) -> Floats:
    """Weight of the group's samples that rank above each run, and half its own, shape (r,)."""
    reached, sizes = runs.axis.reached, np.diff(runs.bounds)
    # Whole numbers until the group's end is off: the axis of all groups is longer than a float.
    end = np.repeat(reached[runs.bounds[1:]], sizes)
    ticks = (end - reached[:-1]) + (end - reached[1:])
    above: Floats = np.ldexp(ticks, np.repeat(-1 - runs.axis.exponents, sizes))
    return above


def ranking(scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The scores from lowest to highest, (n,), and the weight before each and in all, (n + 1,)."""
    if (weights == 1.0).all():
        return np.sort(scores), np.arange(len(scores) + 1, dtype=np.float64)
    order = np.argsort(scores)
    reached = np.zeros(len(scores) + 1)
    np.cumsum(weights[order], out=reached[1:])
    return scores[order], reached


def _row_counts(runs: Runs, n: int) -> Integers:
    """Samples in each run, shape (r,), of n in all."""
    starts = np.arange(n) if runs.starts is None else runs.starts
    return np.diff(starts, append=n)
