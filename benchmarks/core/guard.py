"""The guard when nothing is wrong, and how soon it sees that something is.

The first rows play synthetic platforms hour by hour with the guard and without, on the same
events. "refused" are campaigns that do not get their candidate (the map in force is kept, or the
target's serves), "bounded" those whose candidate was moved, as a share of campaigns and refits;
then how often the target's own map is refused; and the excess log loss (KL to the true
probabilities, x 10^6): as guarded, of the candidates as they are, and of refits that are not asked
for a trial. "still" platforms never change, "drifting" ones swing with the day and over days.

The others are one refit of 2,000 campaigns whose map in force is true while the trial and the
candidate are off by a factor in odds: the share that is refused, by the clicks that the hour is
expected to have. The row "true, level off by the tolerance" is the reverse: the trial is true but
for the level of the hour, by 0.1 in log-odds, the map in force off by a factor of 1.5; what is
refused is a false alarm, of which the rule allows 0.2 %: 0.1 % for each of two comparisons.

The last row is the time of one guard over 10,000 campaigns with 40 knots a map and 40 cells an
hour, none of which needs mending, and when all do.

    python -m benchmarks guard [--json]
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from benchmarks.figures import Cell, Table
from benchmarks.parts import Part
from benchmarks.timing import BUDGET_SECONDS, interleaved
from calibrators import (
    Atlas,
    BinsTable,
    CalibrationMap,
    History,
    Method,
    PerCampaign,
    SmoothedIsotonic,
)
from calibrators.guard import GuardRules, guard
from calibrators.pooled import Pooled
from calibrators.samples import Floats
from evaluation.simulation.ad_platform import Platform, PlatformHour

FIRST = 24
REFUSED = ("kept", "parent")
FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0)
SCORES = np.geomspace(0.002, 0.05, 20)
METHODS: dict[str, Callable[[], Method]] = {
    "sir": lambda: PerCampaign(SmoothedIsotonic()),
    "pooled": Pooled,
}


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 100
    hours: int = 24
    evaluated: int = 2_000
    clicks: tuple[int, ...] = (3, 10, 30, 100, 300, 1_000, 10_000)
    timed: int = 10_000
    budget_seconds: float = BUDGET_SECONDS


def measure(sizes: Sizes | None = None) -> Table:
    """Platforms by method, errors by clicks, and the time."""
    sizes = sizes or Sizes()
    rows: Table = {}
    for name, platform in _platforms(sizes).items():
        for method, make in METHODS.items():
            rows[f"{name}, {method}"] = quiet(make(), platform, sizes.hours)
    for factor in FACTORS:
        for tried in (factor, 1.0 / factor):
            name = f"trial off by {factor:g}" if tried > 1 else f"trial off by 1/{factor:g}"
            rows[name] = _by_clicks(sizes, logit_shift=np.log(tried), in_force=0.0)
    tolerance = GuardRules().tolerance
    rows["true, level off by the tolerance"] = _by_clicks(sizes, tolerance, np.log(1.5))
    rows[f"{sizes.timed:,} campaigns"] = _times(sizes)
    return rows


def _platforms(sizes: Sizes) -> dict[str, Platform]:
    """Traffic and click rate a campaign and hour, still and drifting."""
    return {
        f"{traffic}, {moves}": Platform(
            sizes.campaigns, per_campaign * sizes.campaigns, ctr, seed=11, drift=drift
        )
        for traffic, per_campaign, ctr in (
            ("sparse", 100.0, 0.002),
            ("middling", 300.0, 0.02),
            ("dense", 1_000.0, 0.1),
        )
        for moves, drift in (("still", 0.0), ("drifting", 1.0))
    }


def quiet(method: Method, platform: Platform, hours: int) -> dict[str, Cell]:
    """What the guard does when nobody attacks, and what it costs."""
    evaluated = list(_evaluated(method, platform, hours))
    counts = [each.counts for each in evaluated[1:]]
    total = max(sum(sum(held.values()) for held in counts), 1)
    refusals = [each.target in REFUSED for each in evaluated[1:]]
    return {
        "refused %": 100.0 * sum(held[word] for held in counts for word in REFUSED) / total,
        "bounded %": 100.0 * sum(held["bounded"] for held in counts) / total,
        "target refused %": 100.0 * sum(refusals) / len(refusals),
        "excess loss guarded": 1e6 * float(np.mean([each.guarded for each in evaluated])),
        "candidates": 1e6 * float(np.mean([each.candidate for each in evaluated])),
        "without trials": 1e6 * float(np.mean([each.untried for each in evaluated])),
    }


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """Excess log loss of an hour: of what is guarded, of the candidates as they are, of refits
    that are not asked for a trial; and what the guard decided."""

    guarded: float
    candidate: float
    untried: float
    counts: Mapping[str, int]
    target: str


def _evaluated(method: Method, platform: Platform, hours: int) -> Iterator[_Evaluated]:
    seen = {hour: table_of(platform.hour(hour)) for hour in range(FIRST)}
    in_force: Atlas | None = None
    memories: list[object] = [None, None]
    for hour in range(FIRST, FIRST + hours):
        history = History(float(hour), (seen,))
        tried, untried = (
            method.refit(history, memory=memory, trial=trial)
            for memory, trial in zip(memories, (True, False), strict=True)
        )
        memories = [tried.memory, untried.memory]
        trial = tried.atlas if tried.trial is None else tried.trial
        newest = (seen[hour - 1],)
        decided = guard(tried.atlas, trial, in_force, newest, set_aside=tried.set_aside)
        in_force, happened = decided.atlas, platform.hour(hour)
        yield _Evaluated(
            _loss(in_force, happened),
            _loss(tried.atlas, happened),
            _loss(untried.atlas, happened),
            decided.counts,
            decided.target_decision,
        )
        seen[hour] = table_of(happened)


def _loss(atlas: Atlas, hour: PlatformHour) -> float:
    events = hour.events
    return _excess(
        hour.truth, atlas.look_up(atlas.rows(events.campaigns)[events.rows], events.scores)
    )


def table_of(hour: PlatformHour) -> BinsTable:
    events = hour.events
    rows, ones = events.rows.astype(np.int64), np.ones(len(events))
    return BinsTable.from_columns(events.campaigns, rows, events.scores, ones, events.outcomes)


def _excess(truth: Floats, served: Floats) -> float:
    """Mean KL divergence from what was served to the truth."""
    served = np.clip(served, 1e-9, 1 - 1e-9)
    lost = truth * np.log(truth / served) + (1 - truth) * np.log((1 - truth) / (1 - served))
    return float(lost.mean())


def _by_clicks(sizes: Sizes, logit_shift: float, in_force: float) -> dict[str, Cell]:
    """Percent refused where the trial and the map in force are off by these shifts."""
    rng = np.random.default_rng(7)
    return {
        f"{clicks:,} clicks": 100.0 * _refused(sizes.evaluated, clicks, logit_shift, in_force, rng)
        for clicks in sizes.clicks
    }


def _refused(
    campaigns: int, clicks: int, trial: float, in_force: float, rng: np.random.Generator
) -> float:
    names = [f"campaign-{number}" for number in range(campaigns)]
    hour = _hour(names, clicks, rng)
    candidate = _atlas(names, trial)
    decided = guard(candidate, candidate, _atlas(names, in_force), (hour,))
    return (decided.counts["kept"] + decided.counts["parent"]) / campaigns


def _hour(names: list[str], clicks: int, rng: np.random.Generator) -> BinsTable:
    """Clicks drawn from the scores themselves."""
    counts = np.full(len(SCORES), round(clicks / SCORES.sum()))
    positives = rng.binomial(np.maximum(counts, 1), SCORES, (len(names), len(SCORES)))
    rows = np.repeat(np.arange(len(names)), len(SCORES))
    scores, weights = np.tile(SCORES, len(names)), np.tile(np.maximum(counts, 1), len(names))
    return BinsTable.from_columns(
        names, rows, scores, weights.astype(np.float64), positives.ravel().astype(np.float64)
    )


def _atlas(names: list[str], shift: float, knots: int = 40) -> Atlas:
    """Maps that are true but for a shift in log-odds; the target's is of no use."""
    inner = np.geomspace(1e-3, 0.1, knots - 2)
    ends = np.concatenate(([0.0], inner, [1.0]))
    values = np.concatenate(([0.0], expit(logit(inner) + shift), [1.0]))
    own = CalibrationMap(ends, values)
    return Atlas.build(dict.fromkeys(names, own), CalibrationMap([0.0, 1.0], [0.01, 0.02]))


def _times(sizes: Sizes) -> dict[str, Cell]:
    names = [f"campaign-{number}" for number in range(sizes.timed)]
    hour, quiet_hour = (_hour(names, clicks, np.random.default_rng(1)) for clicks in (100, 0))
    true, far = _atlas(names, 0.0), _atlas(names, 2.0)
    seconds = interleaved(
        {
            "passing": lambda: guard(true, true, true, (hour,)),
            "mending": lambda: guard(far, far, true, (quiet_hour,)),
        },
        sizes.budget_seconds,
    )
    return {f"{name} CPU s": figure for name, figure in seconds.items()}


PART = Part("guard", "The guard: false alarms, detection, time", __doc__, measure)
