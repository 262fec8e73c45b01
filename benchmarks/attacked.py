"""A platform with one campaign under attack, refitted hour by hour, with the guard and without."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from calibrators import Atlas, BinsTable, CalibrationMap, History, Method
from calibrators.guard import guard
from calibrators.samples import Floats, Integers
from evaluation.simulation.ad_platform import Platform, PlatformHour

BEGIN, ATTACKED = 24, 30
"""Hours of the first publish and of the attack's first."""

CONSTANT = 0.05
RESCALED = "scores times 5"


@dataclass(frozen=True, slots=True)
class Attack:
    """What happens to one campaign: its outcomes or its scores, for some hours.

    kind is "all clicks", "no clicks", "constant scores", or "scores times 5", which are those of
    all campaigns: the model upstream was replaced; campaign is the attacked one's row.
    """

    kind: str
    hours: int
    campaign: int = 2

    @property
    def end(self) -> int:
        """The first hour without it; a model that was replaced stays."""
        return ATTACKED + self.hours

    @property
    def over(self) -> int:
        """From when on the maps ought to be right again."""
        return ATTACKED if self.kind == RESCALED else self.end

    def strike(self, rows: Integers, outcomes: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Outcomes and scores as they are recorded."""
        hit = rows == self.campaign
        if self.kind == "all clicks":
            return np.where(hit, 1.0, outcomes), scores
        if self.kind == "no clicks":
            return np.where(hit, 0.0, outcomes), scores
        if self.kind == "constant scores":
            return outcomes, np.where(hit, CONSTANT, scores)
        return outcomes, np.minimum(5.0 * scores, 1.0)


@dataclass(frozen=True, slots=True)
class Served:
    """Mean probability served in an hour over the mean truth: of the attacked campaign, and of the
    target's map for all other campaigns; and what the guard decided before the hour."""

    hour: int
    campaign: float
    target: float
    decision: str
    target_decision: str


@cache
def _hour(platform: Platform, hour: int) -> PlatformHour:
    return platform.hour(hour)


def play(
    method: Method, attack: Attack, platform: Platform, behind: int, guarded: bool = True
) -> list[Served]:
    """The hours [BEGIN, behind), each served by what was refitted on the hours before."""
    return list(_played(method, attack, platform, behind, guarded))


def _played(
    method: Method, attack: Attack, platform: Platform, behind: int, guarded: bool
) -> Iterator[Served]:
    tables = {hour: _table(platform, attack, hour) for hour in range(BEGIN)}
    in_force: Atlas | None = None
    memory: object = None
    name = platform.names[attack.campaign]
    for hour in range(BEGIN, behind):
        held = {each: table for each, table in tables.items() if each >= hour - method.hours - 1}
        history = History(float(hour), (held,))
        fitted = method.refit(history, memory=memory, trial=guarded)
        memory = fitted.memory
        trial = fitted.atlas if fitted.trial is None else fitted.trial
        # Without an atlas in force everything passes.
        before = in_force if guarded else None
        decided = guard(fitted.atlas, trial, before, (tables[hour - 1],))
        in_force = decided.atlas
        campaign, target = _ratios(platform, attack, hour, in_force)
        decision = decided.decisions.get(name, "passed")
        yield Served(hour, campaign, target, decision, decided.target_decision)
        tables[hour] = _table(platform, attack, hour)


def _recorded(platform: Platform, attack: Attack, hour: int) -> tuple[Integers, Floats, Floats]:
    events = _hour(platform, hour).events
    rows = events.rows.astype(np.int64)
    if not ATTACKED <= hour < attack.end:
        return rows, events.outcomes, events.scores
    return rows, *attack.strike(rows, events.outcomes, events.scores)


def _table(platform: Platform, attack: Attack, hour: int) -> BinsTable:
    rows, outcomes, scores = _recorded(platform, attack, hour)
    return BinsTable.from_columns(platform.names, rows, scores, np.ones(len(rows)), outcomes)


def _ratios(platform: Platform, attack: Attack, hour: int, atlas: Atlas) -> tuple[float, float]:
    rows, _, scores = _recorded(platform, attack, hour)
    truth, hit = _hour(platform, hour).truth, rows == attack.campaign
    campaign = atlas.map_of(platform.names[attack.campaign])(scores[hit])
    target = (atlas.target_map or CalibrationMap.identity())(scores[~hit])
    return (
        float(campaign.sum() / truth[hit].sum()),
        float(target.sum() / truth[~hit].sum()),
    )
