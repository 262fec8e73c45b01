"""Levels: samples that earn something, ranked by what they earn."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.places import weight_above
from evaluation.runs import Runs


@dataclass(frozen=True, slots=True, eq=False)
class RevenueLevels:
    """The samples of one group and one revenue above 0, taken together.

    Samples that earn nothing are in no level; only the totals know of them.

    Attributes
    ----------
    runs : the levels; their `probabilities` are revenues.
    weights : (k,) of the samples.
    totals : (n_groups,) weight of each group, with the samples that earn nothing.
    above : (levels,) weight of the group that earns more, plus half of the level's own.
    """

    runs: Runs
    weights: Floats
    totals: Floats
    above: Floats

    @classmethod
    def of(cls, revenue: Floats, weights: Floats, groups: Integers, totals: Floats) -> Self:
        """The levels of k samples; groups, shape (k,), index the totals."""
        runs = Runs.of(revenue, weights, groups, len(totals))
        return cls(runs, weights, totals, weight_above(runs))

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
