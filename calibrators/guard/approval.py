"""Whether the maps of a target may go out by themselves, or wait until an operator approves them.

The guard decides on each campaign's map. This is the question that no single campaign answers:
whether the refit as a whole is what refits are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from calibrators.bins.table import BinsTable
from calibrators.guard.test import Evidence, log_odds_of
from calibrators.maps.atlas import Atlas

NO_MAPS: Final = "no-maps"
CAMPAIGNS_LOST: Final = "campaigns-lost"
MOVED_FAR: Final = "moved-far"

MOVES_KEPT: Final = 24
"""So many accepted moves are what "ever before" means: a day of hourly refits."""


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """From where on a refit waits; docs/guard.md says how the numbers were chosen.

    Parameters
    ----------
    lost : largest share of the campaigns with maps of their own that may lose theirs at once, of
        their number or of their traffic.
    campaigns : with fewer campaigns than that their share says nothing.
    least_move : mean move in log-odds that is never too far.
    times : how many times the largest move kept a move may be.
    moves : with fewer moves kept than that none is too far.
    """

    lost: float = 0.5
    campaigns: int = 4
    least_move: float = log(2.0)
    times: float = 5.0
    moves: int = 3


@dataclass(frozen=True, slots=True)
class RefitChange:
    """What a refit changes of a target.

    Attributes
    ----------
    in_force : the maps that serve.
    candidate : those that the refit fitted.
    move : `mean_move` of what would go out; None where there was no traffic to tell.
    moves : of the refits accepted before.
    traffic : impressions of the largest campaigns, by name, that the maps in force learnt from.
    """

    in_force: Atlas
    candidate: Atlas
    move: float | None
    moves: Sequence[float]
    traffic: Mapping[str, float]

    def held_because(self, rules: ApprovalRules | None = None) -> str | None:
        """Why the maps wait for approval; None where they may go out. What follows on nothing,
        such as the first maps of all, always may."""
        rules = rules or ApprovalRules()
        if not has_maps(self.in_force):
            return None
        if not has_maps(self.candidate):
            return NO_MAPS
        if self._loses_most(rules):
            return CAMPAIGNS_LOST
        return MOVED_FAR if self._moves_far(rules) else None

    def _loses_most(self, rules: ApprovalRules) -> bool:
        """By number, so that one large campaign may end; and by traffic, so that many small ones
        may fall below what a map of their own needs."""
        served = self.in_force.campaigns
        lost = set(served).difference(self.candidate.campaigns)
        if len(served) < rules.campaigns or len(lost) <= rules.lost * len(served):
            return False
        known = {name: n for name, n in self.traffic.items() if name in set(served)}
        return _sum_of(known, lost) > rules.lost * _sum_of(known, known) or not known

    def _moves_far(self, rules: ApprovalRules) -> bool:
        if self.move is None or len(self.moves) < rules.moves:
            return False
        return self.move > max(rules.least_move, rules.times * max(self.moves))

    @property
    def accepted(self) -> list[float]:
        """The moves to keep once the maps are in force."""
        new = [self.move] if self.move is not None and has_maps(self.in_force) else []
        return [*self.moves, *new][-MOVES_KEPT:]


def has_maps(atlas: Atlas) -> bool:
    """Whether it serves anything but the identity."""
    return bool(len(atlas)) or atlas.target_map is not None


def mean_move(tables: Iterable[BinsTable], before: Atlas, after: Atlas) -> float | None:
    """By how much what serves the impressions of these bins moves from one atlas to the other: the
    mean of |difference in log-odds|; None without impressions. Tables are taken one by one."""
    moved = weight = 0.0
    for table in tables:
        evidence = Evidence.of_table(table)
        odds = [
            log_odds_of(atlas.look_up(atlas.rows(table.campaigns)[evidence.rows], evidence.scores))
            for atlas in (before, after)
        ]
        moved += float(evidence.weights @ np.abs(odds[1] - odds[0]))
        weight += float(evidence.weights.sum())
    return moved / weight if weight > 0.0 else None


def _sum_of(traffic: Mapping[str, float], campaigns: Collection[str]) -> float:
    return sum(traffic.get(name, 0.0) for name in campaigns)
