"""Maps of the target against each other, so that no single campaign decides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.guard.evidence import log_odds_of
from calibrators.guard.newest_hour import NewestHour
from calibrators.guard.rules import GuardRules
from calibrators.samples import Floats

_WIDEST = 1.0
"""A level is looked for up to so far, in log-odds; beyond, it is off in any case."""


@dataclass(frozen=True, slots=True)
class Contest:
    """The hour and the rules.

    Nothing is said of two maps here that a single campaign decides: its tracker may be broken.
    """

    hour: NewestHour
    rules: GuardRules

    def beats(self, better: CalibrationMap, worse: CalibrationMap) -> bool:
        """Whether the second map is worse than the first beyond noise, at its best level within
        the tolerance, for all campaigns but the one that speaks most for the first."""
        if better == worse:
            return False
        evidence = self.hour.without({self._gains(better, worse).loudest[0]})
        won = evidence.log_likelihood(log_odds_of(better(evidence.scores)))
        best = evidence.best_log_likelihood(
            log_odds_of(worse(evidence.scores)), self.rules.tolerance
        )
        return float((won - best).sum()) >= self.rules.evidence

    def suits_few(self, candidate: CalibrationMap, in_force: CalibrationMap) -> bool:
        """Whether the candidate is worse beyond noise, and its level off by more than the creep,
        for all campaigns but the two that speak most for and most against it: it may have learned
        too much from one of them.

        Here is no tolerance, as steps smaller than that add up; the creep is where they end."""
        gains = self._gains(candidate, in_force)
        if gains.of_all_others > -self.rules.evidence:
            return False
        rest = self.hour.without({gains.loudest[0], gains.quietest[0]})
        shift = rest.best_shifts(log_odds_of(candidate(rest.scores)), _WIDEST)
        return bool(np.abs(shift).max() > self.rules.creep)

    def _gains(self, better: CalibrationMap, worse: CalibrationMap) -> "_Gains":
        return _Gains(self.hour.campaigns, self.hour.gains(better, worse))


@dataclass(frozen=True, slots=True, eq=False)
class _Gains:
    """How much the outcomes of each campaign, (c,), speak for one map against another, in nats."""

    campaigns: Sequence[str]
    nats: Floats

    @property
    def loudest(self) -> tuple[str, float]:
        """The campaign that speaks most for it; of none, nothing."""
        return self._at(int(self.nats.argmax())) if self.campaigns else ("", 0.0)

    @property
    def quietest(self) -> tuple[str, float]:
        """The campaign that speaks most against it; of none, nothing."""
        return self._at(int(self.nats.argmin())) if self.campaigns else ("", 0.0)

    @property
    def of_all_others(self) -> float:
        """The sum without these two."""
        return float(self.nats.sum()) - max(self.loudest[1], 0.0) - min(self.quietest[1], 0.0)

    def _at(self, place: int) -> tuple[str, float]:
        return self.campaigns[place], float(self.nats[place])
