"""Equal-frequency bins of weighted samples, for all campaigns at once."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.runs import Runs
from evaluation.sums import sum_between

_SNAP = 1e-9
"""A cut this close to the end of a run, as a share of a bin, falls on it: weights such as 0.1
add up to almost, not exactly, where the cut should be."""


@dataclass(frozen=True, slots=True, eq=False)
class EqualFrequencyBins:
    """How the runs of each group divide into n bins of equal weight, lowest probability first.

    Whole-number weights are repetitions: they are cut where `numpy.array_split` cuts the repeated
    samples (sizes differ by at most 1). Other weights are cut at exactly k W / n. A run that a cut
    passes through gives each side its share of both weight and outcome, which is the expectation
    over random orders of the run's samples.

    Cut k of group g, the lower edge of bin k, comes after `shares[g, k]` of run `cut_runs[g, k]`:
    0 is before all of it. Both have shape (n_groups, n + 1).
    """

    cut_runs: Integers
    shares: Floats

    @classmethod
    def of(cls, runs: Runs, n: int) -> Self:
        """Cut each group into n bins; n is at least 1, a group may hold fewer samples."""
        reached = runs.axis.reached
        first, behind = runs.bounds[:-1, np.newaxis], runs.bounds[1:, np.newaxis]
        opens, ticks = reached[first], reached[behind] - reached[first]
        cuts = _cuts(runs, ticks, n)
        slack = _SNAP * ticks / n
        at = opens + np.minimum(np.floor(cuts + slack), ticks).astype(np.int64)
        cut_runs = np.minimum(np.searchsorted(reached, at, side="right") - 1, behind)
        # Next to giants a run may be too light for a tick; the first bin has it nevertheless.
        cut_runs[:, :1] = first
        depths = cuts - (reached[cut_runs] - opens)
        split = depths > slack
        halved = cut_runs[split]
        shares = np.zeros(cuts.shape)
        shares[split] = depths[split] / (reached[halved + 1] - reached[halved])
        return cls(cut_runs, shares)

    @property
    def n(self) -> int:
        """Bins of each group."""
        return int(self.shares.shape[1]) - 1

    def sums(self, run_values: Floats) -> Floats:
        """Sum of the runs' values, shape (r,), in each bin, shape (n_groups, n)."""
        split = self.shares > 0.0
        halved = np.zeros(split.shape)
        halved[split] = run_values[self.cut_runs[split]]
        first, last = self.cut_runs[:, :-1], self.cut_runs[:, 1:]
        passed, reached = self.shares[:, :-1], self.shares[:, 1:]
        inside_one = first == last
        head = np.where(inside_one, 0.0, 1.0 - passed) * halved[:, :-1]
        tail = np.where(inside_one, reached - passed, reached) * halved[:, 1:]
        return head + sum_between(run_values, first + split[:, :-1], last) + tail


def _cuts(runs: Runs, ticks: Integers, n: int) -> Floats:
    """Ticks of each group, (n_groups, 1), before each of its cuts, (n_groups, n + 1).

    Bins of `small + 1` samples for the first `larger` and of `small` for the rest is array_split's
    rule; with small = W / n none is larger, but for what rounding leaves over.
    """
    exponents = runs.axis.exponents[:, np.newaxis]
    samples = np.ldexp(ticks, -exponents)
    small = np.where(runs.whole[:, np.newaxis], np.floor(samples / n), samples / n)
    larger = samples - n * small
    k = np.arange(n + 1)
    cuts: Floats = np.ldexp(small * k + np.minimum(larger, k), exponents)
    return cuts
