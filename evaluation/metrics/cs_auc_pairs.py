"""Revenue of pairs: what csAUC sums over all pairs of samples, found without looking at any."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, sum_at
from evaluation.metrics.predictions import Groups, Runs, quotients, ranking

Ties = Literal["definition", "half", "worst"]


LOST_OF_TIED = {"definition": -0.5, "half": 0.0, "worst": 0.5}
"""Part of what is at stake in tied pairs that each rule loses beyond their mean."""


def check_ties(ties: str) -> None:
    """Raises ValueError unless `ties` is a rule for pairs of equal scores."""
    if ties not in LOST_OF_TIED:
        raise ValueError(f"ties = {ties!r}: must be one of {', '.join(LOST_OF_TIED)}")


@dataclass(frozen=True, slots=True, eq=False)
class RankedPositions:
    """Where k of n samples stand among all samples of their group, by score.

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
        cls,
        scores: Floats,
        weights: Floats,
        groups: Groups,
        n_groups: int,
        chosen: NDArray[np.bool_],
    ) -> Self:
        """The places of the chosen, (n,), each in its group of 0..n_groups-1; weights above 0."""
        if n_groups == 1:
            return cls._of_one_group(scores, weights, chosen)
        ranked = Runs.of(scores, weights, groups, n_groups)
        order = ranked.order if isinstance(ranked.order, np.ndarray) else np.arange(len(scores))
        spots = np.flatnonzero(chosen[order])
        runs = ranked.holding(spots)
        starts = np.arange(len(order)) if ranked.starts is None else ranked.starts
        return cls(
            rows=order[spots],
            above=weight_above(ranked)[runs],
            tied=ranked.weights[runs],
            runs=runs,
            ties=np.flatnonzero(np.diff(starts, append=len(order))[runs] > 1),
            totals=ranked.group_sums(ranked.weights),
            row_counts=ranked.row_counts,
        )

    @classmethod
    def _of_one_group(cls, scores: Floats, weights: Floats, chosen: NDArray[np.bool_]) -> Self:
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


class RevenueLevels:
    """The samples of one group and one revenue above 0, taken together.

    Samples that earn nothing are in no level and in the totals only.

    runs : the levels; their `probabilities` are revenues.
    weights : (k,) of the samples.
    totals : (n_groups,) weight of each group, with the samples that earn nothing.
    above : (levels,) weight of the group that earns more, plus half of the level's own.
    """

    def __init__(self, revenue: Floats, weights: Floats, groups: Integers, totals: Floats) -> None:
        """The levels of k samples; groups, shape (k,), index the totals."""
        self.runs = Runs.of(revenue, weights, groups, len(totals))
        self.weights, self.totals, self.above = weights, totals, weight_above(self.runs)

    @property
    def best(self) -> Floats:
        """Each sample's revenue once for all weight that earns less, shape (n_groups,)."""
        less = self._below - 0.5 * self.runs.weights
        return self.runs.group_sums(self.runs.expected * less)

    @property
    def stake(self) -> Floats:
        """Difference of the two revenues, summed over all pairs of a group, shape (n_groups,)."""
        return self.runs.group_sums(self.runs.expected * (self._below - self.above))

    def lost(self, above: Floats) -> Floats:
        """Lost to `best` by a ranking, from the weight it puts above each sample, shape (k,)."""
        rise = self.runs.sums(self.weights * above) - self.runs.weights * self.above
        return self.runs.group_sums(self.runs.probabilities * rise)

    @property
    def _below(self) -> Floats:
        """Weight of the group that earns less, and half of the level's own, shape (levels,)."""
        return np.repeat(self.totals, np.diff(self.runs.bounds)) - self.above


class RevenuePairs:
    """Sums over the pairs of unequal revenue in each group, shape (n_groups,) each.

    Such a pair pays the revenue of whichever of the two scores higher. So a sample pays once for
    every sample below it, and what a ranking loses against the best one is

        sum over samples of revenue * (samples above it by score - samples above it by revenue):

    two rankings instead of all pairs. (Sort by revenue with swaps of neighbours: each gains the
    difference of two revenues, puts one pair right, and lowers that sum by the same difference.)

    best : paid when the higher revenue always scores higher; nan where no pair could pay.
    stake : what the order decides about: `best` less what the reverse order pays; nan likewise.
    lost : `best` less what this order pays, a pair of equal scores paying the mean of the two.
    tied : the part of `stake` that lies in pairs of equal scores.
    """

    def __init__(
        self, scores: Floats, revenue: Floats, weights: Floats, groups: Groups, n_groups: int
    ) -> None:
        """The sums of n samples; groups, shape (n,), say which of 0..n_groups-1 each is in."""
        held = weights > 0.0
        if not held.all():
            scores, revenue = scores[held], revenue[held]
            weights, groups = weights[held], groups[held]
        weights = weights if (weights == 1.0).all() else _scaled(weights)
        places = RankedPositions.of(scores, weights, groups, n_groups, revenue > 0.0)
        rows, group = places.rows, groups[places.rows].astype(np.int64)
        paid = _scaled(revenue[rows])
        levels = RevenueLevels(paid, weights[rows], group, places.totals)
        # Where a group has two different revenues, of which one is above 0.
        earn_nothing = places.row_counts > levels.runs.row_counts
        defined = np.diff(levels.runs.bounds) + earn_nothing >= 2
        self.best = np.where(defined, levels.best, np.nan)
        self.stake = np.where(defined, levels.stake, np.nan)
        self.lost = levels.lost(places.above)
        self.tied = _tied(places, paid, weights[rows], group)

    def paid(self, ties: Ties) -> Floats:
        """Share of `best` that the scores make, shape (n_groups,): csAUC; nan where undefined."""
        lost = np.clip(self.lost + LOST_OF_TIED[ties] * self.tied, 0.0, self.stake)
        found = np.clip(quotients(self.best - lost, self.best), 0.0, 1.0)
        # Weights may be so far apart that all of a sum is rounded away.
        return np.where(self.best > 0.0, found, np.nan)

    @property
    def worst(self) -> Floats:
        """Share of `best` that the reverse order makes, shape (n_groups,)."""
        return quotients(self.best - self.stake, self.best)

    @property
    def tied_share(self) -> Floats:
        """Share of `stake` in pairs of equal scores, shape (n_groups,)."""
        return quotients(self.tied, self.stake)


def _scaled(values: Floats) -> Floats:
    # Sums of products can leave the range of floats; a power of 2 keeps whole numbers exact.
    scaled: Floats = np.ldexp(values, -np.frexp(values.max(initial=0.0))[1])
    return scaled


def _tied(places: RankedPositions, paid: Floats, weights: Floats, groups: Integers) -> Floats:
    """What is at stake in pairs of equal scores, shape (n_groups,); other arguments (k,)."""
    at = places.ties
    opens = np.diff(places.runs[at], prepend=-1) > 0
    first = at[opens]
    run = np.cumsum(opens) - 1
    stakes = RevenueLevels(paid[at], weights[at], run, places.tied[first]).stake
    return sum_at(groups[first], stakes, len(places.totals))


def weight_above(runs: Runs) -> Floats:
    """Weight of the group's samples that rank above each run, and half its own, shape (r,)."""
    reached, sizes = runs.axis.reached, np.diff(runs.bounds)
    # Whole numbers until the group's end is off: the axis of all groups is longer than a float.
    end = np.repeat(reached[runs.bounds[1:]], sizes)
    ticks = (end - reached[:-1]) + (end - reached[1:])
    above: Floats = np.ldexp(ticks, np.repeat(-1 - runs.axis.exponents, sizes))
    return above
