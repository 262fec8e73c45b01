"""What the default calibrator must reach in every regime, and whether it does."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from research.leaderboard.result_file import (
    EXCESS,
    GC_3_TRUE,
    LOG_LOSS,
    NAN,
    Interval,
    Leaderboard,
    TrafficResult,
)

DEFAULT_METHOD: Final = "pooled"
PUBLISHED: Final = "sir_published"
IDENTITY: Final = "identity"
STRONG: Final = ("lightgbm", "mcgrad")
PER_CAMPAIGN: Final = ("isotonic", "platt", "temperature", "beta", "bbq", "sir", PUBLISHED)


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on the ratio of the default method's metric to the least of the others'.

    `among` are the others, all of them where it is empty; `strictly` says that the limit itself is
    too much.
    """

    name: str
    metric: str
    limit: float
    among: Sequence[str] = ()
    strictly: bool = False


TARGETS: Final = (
    Target("excess of sir as published", EXCESS, 0.25, (PUBLISHED,)),
    Target("excess of the better of LightGBM and MCGrad", EXCESS, 0.70, STRONG),
    Target("excess of the best per-campaign method", EXCESS, 1.0, PER_CAMPAIGN, strictly=True),
    Target("GC-3* of sir as published", GC_3_TRUE, 0.45, (PUBLISHED,)),
    Target("GC-3* of the best of all others", GC_3_TRUE, 1.0, strictly=True),
)
MEANS: Final = (
    Target("excess of sir as published", EXCESS, 0.20, (PUBLISHED,)),
    Target("excess of the better of LightGBM and MCGrad", EXCESS, 0.60, STRONG),
)
"""Of the geometric means over all regimes whose scores err."""
ALL: Final = "all regimes"
NO_WORSE: Final = "log loss less identity's"
_NOTHING: Final = 1e-12
"""An excess that is but rounding."""


@dataclass(frozen=True, slots=True)
class TargetResult:
    """A target in a regime: the value beside its limit.

    regime, target : which; `ALL` is the geometric mean of the regimes, which has no interval.
    against : the method that the value is relative to; empty where none of them ran.
    value : a ratio, or for `NO_WORSE` the difference in log loss.
    limit : what the value must not exceed.
    lower, upper : the 95 % interval of the value.
    met : whether it is reached; None where nobody can say.
    absent : methods that the target is about and that did not run.
    """

    regime: str
    target: str
    against: str
    value: float
    limit: float
    lower: float
    upper: float
    met: bool | None
    absent: Sequence[str] = ()

    @property
    def of_one_ratio(self) -> bool:
        """Whether it has a place among the ratios of its regime."""
        return self.regime != ALL and self.target != NO_WORSE

    @property
    def clear(self) -> bool:
        """Whether the whole interval lies on the same side of the limit as the value."""
        return self.upper <= self.limit or self.lower > self.limit


def target_results(result: Leaderboard) -> list[TargetResult]:
    """Every target in every regime whose truth is known and in which the default method ran, then
    those of the means over regimes, if there are several."""
    known = [
        found for found in result.traffic if found.truth_known and DEFAULT_METHOD in found.rows
    ]
    erring = [found for found in known if not found.already_calibrated]
    means = [_mean_result(erring, target) for target in MEANS] if len(erring) > 1 else []
    return [*(each for found in known for each in _of_regime(found)), *means]


def _mean_result(regimes: Sequence[TrafficResult], target: Target) -> TargetResult:
    found = [_ratio_result(regime, target) for regime in regimes]
    value = _mean([each.value for each in found]).value
    absent = tuple(sorted({name for each in found for name in each.absent}))
    return TargetResult(
        ALL, target.name, "", value, target.limit, NAN, NAN, _met(value, target), absent
    )


def _of_regime(found: TrafficResult) -> Iterator[TargetResult]:
    yield from (_ratio_result(found, target) for target in TARGETS)
    if found.already_calibrated:
        yield _no_worse(found)


def _ratio_result(found: TrafficResult, target: Target) -> TargetResult:
    others = [name for name in target.among or found.rows if _competes(name, found)]
    ran = [name for name in others if not math.isnan(found.value(name, target.metric))]
    absent = [name for name in target.among or found.missing if name in found.missing]
    if not ran:
        return TargetResult(
            found.name, target.name, "", NAN, target.limit, NAN, NAN, None, tuple(absent)
        )
    best = min(ran, key=lambda name: found.value(name, target.metric))
    ratio = found.ratios.get(best, {}).get(target.metric, Interval(NAN))
    return TargetResult(
        found.name, target.name, best, ratio.value, target.limit, ratio.lower, ratio.upper,
        _met(ratio.value, target), tuple(absent),
    )  # fmt: skip


def _competes(name: str, found: TrafficResult) -> bool:
    """Nobody can be nearer to the truth than scores that are the truth, and who serves them as they
    are: the identity, and any other that has learnt nothing."""
    serves_truth = found.already_calibrated and found.value(name, EXCESS) < _NOTHING
    return name != DEFAULT_METHOD and not serves_truth


def _met(value: float, target: Target) -> bool | None:
    if math.isnan(value):
        return None
    return value < target.limit if target.strictly else value <= target.limit


def _no_worse(found: TrafficResult) -> TargetResult:
    """Not worse than the scores as they are by more than chance."""
    ends = found.differences.get(IDENTITY, {}).get(LOG_LOSS, Interval(NAN))
    met = None if math.isnan(ends.lower) else not ends.lower > 0.0
    return TargetResult(
        found.name, NO_WORSE, IDENTITY, ends.value, 0.0, ends.lower, ends.upper, met
    )


def geometric_means(result: Leaderboard, metric: str) -> dict[str, Interval]:
    """Method -> geometric mean over the regimes of its metric's ratio to sir as published.

    The ends are the least and the largest of the ratios. A regime whose scores are the truth is
    left out: there a ratio says by how little a method moves, and would carry the mean.
    """
    found = {name: list(_ratios(result, name, metric)) for name in result.methods}
    return {name: _mean(ratios) for name, ratios in found.items() if ratios}


def _mean(ratios: Sequence[float]) -> Interval:
    if any(math.isnan(ratio) for ratio in ratios):
        return Interval(NAN)
    logs = [math.log(ratio) for ratio in ratios]
    return Interval(math.exp(math.fsum(logs) / len(logs)), min(ratios), max(ratios))


def ratio_to_published(found: TrafficResult, name: str, metric: str) -> float:
    """A metric over that of sir as published; nan where there is none."""
    theirs = found.value(PUBLISHED, metric)
    return found.value(name, metric) / theirs if theirs > 0.0 else NAN


def _ratios(result: Leaderboard, name: str, metric: str) -> Iterator[float]:
    for found in result.traffic:
        ratio = ratio_to_published(found, name, metric)
        if found.truth_known and not found.already_calibrated and 0.0 < ratio < math.inf:
            yield ratio
