"""One campaign of 20 under attack, with a broken tracker, or after its scores changed.

The platform of `evaluation.simulation.ad_platform` at a click rate of 1 %, refitted hour by hour;
the attack begins 6 hours after the first publish, on the campaign with the third most traffic, 9 %
of it. From then on all of its impressions are recorded as clicks, or none, or all with the same
score 0.05; or the model upstream is replaced, and the scores of all campaigns are 5 times what they
were.

Every figure is the mean probability served in an hour over the mean truth, against the same without
an attack: "campaign x" the largest and "campaign /" the smallest (as 1 / x), of the campaign that
is attacked; "target x" and "target /" of the target's map for all other campaigns; during the
attack and in the 24 hours after it. "hours off" are the hours after the attack in which the
campaign is off by more than a factor of 1.5 (after a change of scores: the hours since).

    python -m benchmarks attacks [--json]
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.core.guard import METHODS
from benchmarks.figures import Cell, Table
from benchmarks.parts import Part
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
        newest = (tables[hour - 1],)
        decided = guard(fitted.atlas, trial, before, newest, set_aside=fitted.set_aside)
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
    return (float(campaign.sum() / truth[hit].sum()), float(target.sum() / truth[~hit].sum()))


KINDS = ("all clicks", "no clicks", "constant scores")
OFF = 1.5


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    methods: tuple[str, ...] = tuple(METHODS)
    kinds: tuple[str, ...] = KINDS
    hours: tuple[int, ...] = (1, 6, 24)
    after: int = 24
    impressions_per_hour: float = 20_000

    @property
    def platform(self) -> Platform:
        """The campaigns."""
        return Platform(20, self.impressions_per_hour, ctr=0.01, seed=4)

    @property
    def behind(self) -> int:
        """The first hour that no attack is followed to."""
        return ATTACKED + max(self.hours) + self.after

    @property
    def attacks(self) -> tuple[Attack, ...]:
        """All of them."""
        struck = tuple(Attack(kind, hours) for kind in self.kinds for hours in self.hours)
        return (*struck, Attack(RESCALED, self.after))


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each method and attack, with the guard and without."""
    sizes = sizes or Sizes()
    rows: dict[tuple[str, Attack, bool], dict[str, Cell]] = {}
    for name in sizes.methods:
        for guarded in (True, False):
            method = METHODS[name]()
            undisturbed = play(method, Attack("nothing", 0), sizes.platform, sizes.behind, guarded)
            for attack in sizes.attacks:
                rows[name, attack, guarded] = row(method, attack, sizes, guarded, undisturbed)
    return {
        f"{name}, {_named(attack)}, {'guarded' if guarded else 'plain'}": rows[
            name, attack, guarded
        ]
        for name in sizes.methods
        for attack in sizes.attacks
        for guarded in (True, False)
    }


def row(
    method: Method, attack: Attack, sizes: Sizes, guarded: bool, undisturbed: list[Served]
) -> dict[str, Cell]:
    """What an attack does, against the same hours without it."""
    attacked = play(method, attack, sizes.platform, attack.over + sizes.after, guarded)
    pairs = list(zip(attacked, undisturbed, strict=False))
    own = [one.campaign / other.campaign for one, other in pairs]
    target = [one.target / other.target for one, other in pairs]
    return {
        "campaign x": max(own),
        "campaign /": 1.0 / min(own),
        "target x": max(target),
        "target /": 1.0 / min(target),
        "hours off": _hours_off(attacked, own, attack.over),
    }


def _hours_off(played: list[Served], ratios: list[float], since: int) -> int:
    pairs = zip(played, ratios, strict=True)
    return sum(each.hour >= since and not 1.0 / OFF <= ratio <= OFF for each, ratio in pairs)


def _named(attack: Attack) -> str:
    return attack.kind if attack.kind == RESCALED else f"{attack.kind} {attack.hours} h"


PART = Part("attacks", "Attacks and broken trackers", __doc__, measure)
