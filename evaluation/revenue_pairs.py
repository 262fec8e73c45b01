"""Revenue of pairs: what csAUC sums over all pairs of samples, found without looking at any."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.places import Places
from evaluation.revenue_levels import RevenueLevels
from evaluation.runs import Groups
from evaluation.sums import sum_at

Ties = Literal["definition", "half", "worst"]

LOST_OF_TIED = {"definition": -0.5, "half": 0.0, "worst": 0.5}
"""Part of what is at stake in tied pairs that each rule loses beyond their mean."""


@dataclass(frozen=True, slots=True, eq=False)
class RevenuePairs:
    """Sums over the pairs of unequal revenue in each group, shape (n_groups,) each.

    Such a pair pays the revenue of whichever of the two scores higher. So a sample pays once for
    every sample below it, and what a ranking loses against the best one is

        sum over samples of revenue * (samples above it by score - samples above it by revenue):

    two rankings instead of all pairs. (Sort by revenue with swaps of neighbours: each gains the
    difference of two revenues, puts one pair right, and lowers that sum by the same difference.)

    Attributes
    ----------
    best : paid when the higher revenue always scores higher; nan where no pair could pay.
    stake : what the order decides about: `best` less what the reverse order pays; nan likewise.
    lost : `best` less what this order pays, a pair of equal scores paying the mean of the two.
    tied : the part of `stake` that lies in pairs of equal scores.
    """

    best: Floats
    stake: Floats
    lost: Floats
    tied: Floats

    @classmethod
    def of(
        cls, scores: Floats, revenue: Floats, weights: Floats, groups: Groups, n_groups: int
    ) -> Self:
        """The sums of n samples; groups, shape (n,), say which of 0..n_groups-1 each is in."""
        held = weights > 0.0
        if not held.all():
            columns = (scores[held], revenue[held], weights[held], groups[held])
            return cls.of(*columns, n_groups)
        weights = weights if (weights == 1.0).all() else _scaled(weights)
        places = Places.of(scores, weights, groups, n_groups, revenue > 0.0)
        rows, group = places.rows, groups[places.rows].astype(np.int64)
        paid = _scaled(revenue[rows])
        levels = RevenueLevels.of(paid, weights[rows], group, places.totals)
        defined = _have_two_levels(levels, places.row_counts)
        return cls(
            best=np.where(defined, levels.best, np.nan),
            stake=np.where(defined, levels.stake, np.nan),
            lost=levels.lost(places.above),
            tied=_tied(places, paid, weights[rows], group),
        )

    def paid(self, ties: Ties) -> Floats:
        """Share of `best` that the scores make, shape (n_groups,): csAUC; nan where undefined."""
        lost = np.clip(self.lost + LOST_OF_TIED[ties] * self.tied, 0.0, self.stake)
        return (self.best - lost) / self.best

    @property
    def worst(self) -> Floats:
        """Share of `best` that the reverse order makes, shape (n_groups,)."""
        return (self.best - self.stake) / self.best

    @property
    def tied_share(self) -> Floats:
        """Share of `stake` in pairs of equal scores, shape (n_groups,)."""
        return self.tied / self.stake


def check_ties(ties: str) -> None:
    """Raises ValueError unless `ties` is a rule for pairs of equal scores."""
    if ties not in LOST_OF_TIED:
        raise ValueError(f"ties = {ties!r}: must be one of {', '.join(LOST_OF_TIED)}")


def _scaled(values: Floats) -> Floats:
    # Sums of products can leave the range of floats; a power of 2 keeps whole numbers exact.
    scaled: Floats = np.ldexp(values, -np.frexp(values.max(initial=0.0))[1])
    return scaled


def _have_two_levels(levels: RevenueLevels, row_counts: Integers) -> NDArray[np.bool_]:
    """Whether a group has two different revenues, shape (n_groups,); of them one is above 0."""
    earn_nothing = row_counts > levels.runs.row_counts
    return np.diff(levels.runs.bounds) + earn_nothing >= 2


def _tied(places: Places, paid: Floats, weights: Floats, groups: Integers) -> Floats:
    """What is at stake in pairs of equal scores, shape (n_groups,); other arguments (k,)."""
    at = places.ties
    opens = np.diff(places.runs[at], prepend=-1) > 0
    first = at[opens]
    run = np.cumsum(opens) - 1
    stakes = RevenueLevels.of(paid[at], weights[at], run, places.tied[first]).stake
    return sum_at(groups[first], stakes, len(places.totals))
