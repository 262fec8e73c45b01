"""The target's own map: the one that serves all campaigns without a map of their own."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.atlas import Atlas
from calibrators.calibration_map import CalibrationMap
from calibrators.guard.bounding import bounded
from calibrators.guard.bounds import Bounds
from calibrators.guard.contest import Contest
from calibrators.guard.felt import felt
from calibrators.guard.newest_hour import NewestHour
from calibrators.guard.rules import GuardRules
from calibrators.guard.verdict import Verdict, verdicts_of
from calibrators.map_columns import MapColumns


@dataclass(frozen=True, slots=True, eq=False)
class TargetMap:
    """The verdict on it, the map chosen by that, and what goes out; None is the identity."""

    verdict: Verdict
    chosen: CalibrationMap | None
    map: CalibrationMap | None

    @classmethod
    def of(
        cls,
        hour: NewestHour,
        candidate: Atlas,
        trial: Atlas,
        in_force: Atlas,
        rules: GuardRules,
    ) -> Self:
        """Judged by the hour, and moved into its bounds."""
        verdict = _verdict(hour, candidate, trial, in_force, rules)
        sources = {"passed": candidate, "kept": in_force, "parent": Atlas.empty()}
        chosen = sources[verdict].target_map
        maps = MapColumns.of_maps([chosen or CalibrationMap.identity()])
        bounds = Bounds(in_force, np.zeros(1, np.int64), rules.step)
        moved = bounded(maps, bounds, rules.knots).maps
        if not len(moved):
            return cls(verdict, chosen, chosen)
        return cls(verdict, chosen, CalibrationMap(moved.knots, moved.values))

    @property
    def serving(self) -> CalibrationMap:
        """What goes out, the identity included."""
        return self.map or CalibrationMap.identity()

    @property
    def moved(self) -> bool:
        """Whether it had to be moved."""
        return self.map is not self.chosen

    def decision(self, hour: NewestHour) -> str:
        """The verdict, or "bounded" where a candidate was moved at a score of the hour."""
        if self.verdict != "passed" or not self.moved:
            return self.verdict
        chosen = self.chosen or CalibrationMap.identity()
        scores, _, weights = hour.total.samples()
        rows = np.zeros(len(scores), np.int64)
        changed = felt(chosen(scores), self.serving(scores), weights, rows, 1)
        return "bounded" if changed.any() else "passed"


def shared(atlas: Atlas) -> CalibrationMap:
    """What serves campaigns without a map of their own."""
    return atlas.target_map or CalibrationMap.identity()


def _verdict(
    hour: NewestHour, candidate: Atlas, trial: Atlas, in_force: Atlas, rules: GuardRules
) -> Verdict:
    contest = Contest(hour, rules)
    tried, served, identity = shared(trial), shared(in_force), CalibrationMap.identity()
    verdict: Verdict = verdicts_of(
        np.array([contest.beats(served, tried)]),
        np.array([contest.beats(identity, tried)]),
        np.array([contest.beats(identity, served)]),
    )[0].item()
    if verdict == "passed" and contest.suits_few(shared(candidate), served):
        return "kept"
    return verdict
