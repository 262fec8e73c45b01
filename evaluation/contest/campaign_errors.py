"""GC-3 of a contest: the error of the bins of each campaign that has enough positives."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.cal_n import cal_n_of_runs
from evaluation.contest.ledger import CellSums
from evaluation.runs import Runs

BINS: Final = 3
LEAST_POSITIVES: Final = 5.0 * BINS
"""Expected positives (observed ones in a log) that a campaign needs to count: 5 in a bin on
average, as `gc_n` demands of observed ones; the same campaigns for all contenders."""

_DRAWS = 20


def enough(cells: CellSums, campaigns: int) -> Integers:
    """The campaigns with enough expected positives, ascending."""
    expected = np.bincount(cells.rows, cells.truth, campaigns)
    return np.flatnonzero(expected >= LEAST_POSITIVES)


@dataclass(frozen=True, slots=True, eq=False)
class CampaignErrors:
    """Cal-3 of some campaigns, (k,) each: against outcomes, against the truth (or outcomes, where
    it is unknown), and its floor, the mean against outcomes drawn from the predictions."""

    observed: Floats
    true: Floats
    floor: Floats

    @classmethod
    def of(cls, cells: CellSums, kept: Integers, rng: np.random.Generator) -> "CampaignErrors":
        """The errors of the campaigns `kept`, ascending, from one contender's cells."""
        chosen = np.isin(cells.rows, kept)
        weights = cells.weights[chosen]
        means = np.minimum(cells.predicted[chosen] / weights, 1.0)
        groups = np.searchsorted(kept, cells.rows[chosen])
        runs = Runs.of(means, weights, groups, len(kept))
        whole = np.rint(weights).astype(np.int64)
        drawn = [cal_3(runs, rng.binomial(whole, means).astype(float)) for _ in range(_DRAWS)]
        return cls(
            cal_3(runs, cells.observed[chosen]),
            cal_3(runs, cells.truth[chosen]),
            np.mean(drawn, axis=0),
        )


def cal_3(runs: Runs, positives: Floats) -> Floats:
    """Cal-3 of each group; a bin without positives joins the one below."""
    return cal_n_of_runs(runs, runs.sums(positives), BINS, "merge")
