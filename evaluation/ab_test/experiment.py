"""The analysis of an experiment that runs: sums of buckets of units by day, before it and during.

Units are hashed to buckets and buckets are dealt out to arms, so the bucket is what was randomised:
whatever users, days and campaigns have in common stays inside of one, and the spread between the
buckets of an arm says how far the arm is known.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrators.arms import ARMS, CHAMPION
from calibrators.samples import Floats, Integers
from evaluation.ab_test.analysis import (
    SUSPICIOUS,
    AbAnalysis,
    ArmAnalysis,
    Estimate,
    SampleRatio,
    UnitRatio,
)
from evaluation.metrics.predictions import ratio

NARROWEST_AT: Final = 14.0
"""Looks of the size of the first after which the interval is tuned to be narrowest: two weeks."""

_ROUNDING: Final = 1e-18
"""No variance is smaller: units that are all alike differ by what is rounded."""


class Looks:
    """What is known of a number at each of n looks, (n,) each, nan where nothing is.

    variances : of the estimate.
    freedom : degrees of freedom of the variance, above 0.
    prior : t2, the variance of the true values that the mixture is over.
    alpha : how often the truth may be missed at one look at least, between 0 and 1.
    """

    def __init__(self, variances: Floats, freedom: Floats, alpha: float) -> None:
        """Tuned by the first look at which something is known."""
        self.variances, self.freedom = np.maximum(variances, _ROUNDING), freedom
        self.alpha = alpha
        known = self.variances[np.isfinite(self.variances)]
        miss = -2.0 * float(np.log(alpha))
        first = float(known[0]) if len(known) else 1.0
        self.prior = first / NARROWEST_AT * (miss + float(np.log1p(miss)))

    def spread(self) -> Floats:
        """The factor from the middle of the interval to its ends at each look, (n,)."""
        odds = self.prior / self.variances
        squares = (1.0 + 1.0 / odds) * (np.log1p(odds) - 2.0 * np.log(self.alpha))
        reach = np.sqrt(self.variances * _student(squares, self.freedom))
        with np.errstate(over="ignore"):
            found: Floats = np.exp(reach)
        return found

    def p_values(self, estimates: Floats) -> Floats:
        """How small alpha could be for 0 to be left out by then, (n,): never rises."""
        odds = self.prior / self.variances
        squares = _normal(estimates**2 / self.variances, self.freedom)
        evidence = 0.5 * (squares / (1.0 + 1.0 / odds) - np.log1p(odds))
        found: Floats = np.exp(-np.maximum.accumulate(np.maximum(np.nan_to_num(evidence), 0.0)))
        return found


def _student(squares: Floats, freedom: Floats) -> Floats:
    """The squares of Student's quantiles where normal ones have these; infinite where too large."""
    with np.errstate(over="ignore"):
        found: Floats = freedom * np.expm1(squares * _shrunk(freedom) / freedom)
    return found


def _normal(squares: Floats, freedom: Floats) -> Floats:
    """The inverse of `_student`."""
    found: Floats = freedom * np.log1p(squares / freedom) / _shrunk(freedom)
    return found


def _shrunk(freedom: Floats) -> Floats:
    found: Floats = ((8.0 * freedom + 3.0) / (8.0 * freedom + 1.0)) ** 2
    return found


IMPRESSIONS, OUTCOMES, COST, VALUE = range(4)
"""The columns of a bucket's sums."""
LEAST_BUCKETS: Final = 15.0
"""So many must bring the outcomes, the cost or the value of an arm, if each brought as much: with a
handful of conversions their spread says too little, and 8 % of the intervals missed, not 5."""
_RATIOS: Final = {"rpm": (COST, IMPRESSIONS), "ctr": (OUTCOMES, IMPRESSIONS), "roi": (VALUE, COST)}
RATIOS_OF_CLICKS: Final = {
    "cvr": (OUTCOMES, IMPRESSIONS),
    "value_per_click": (VALUE, IMPRESSIONS),
    "roi": (VALUE, COST),
}
"""Of a delayed target, whose trials are clicks."""
_PER_MILLE: Final = 1000.0

Ratios = dict[str, list[UnitRatio]]
"""Of each arm, look after look."""


@dataclass(frozen=True, slots=True, eq=False)
class BucketDays:
    """Sums of each bucket by day.

    days : (d,) whole days since 1970, ascending.
    sums : (d, buckets, 4) impressions (of a delayed target clicks), outcomes, cost and value.
    """

    days: Integers
    sums: Floats


@dataclass(frozen=True, slots=True)
class ExperimentAnalysis:
    """What an experiment says so far.

    latest : after the last day. Units are buckets here, the control is the champion.
    days : at which it was looked at, whole days since 1970.
    lifts : for every other arm and metric, the lift over the champion after each of the days.
    variance : for every other arm and metric, which share of the lift's variance is left by what
        the buckets were like before; 1 where nothing is known of that.
    clumping : by how much more an arm's outcomes scatter than if they were independent, because
        those of a bucket go together; at least 1, nan where nothing is known.
    """

    latest: AbAnalysis
    days: tuple[int, ...]
    lifts: Mapping[str, Mapping[str, tuple[Estimate, ...]]]
    variance: Mapping[str, Mapping[str, float]]
    clumping: Mapping[str, float]


def predicted_over_actual(predicted: float, actual: float, clumping: float) -> Estimate:
    """PCOC with its 95 % interval, of one look: outcomes that were predicted over those that came.

    The logarithm of a count has the variance 1 / count, times how the counts clump.
    """
    value = ratio(predicted, actual)
    spread = float(np.exp(1.96 * (clumping / actual) ** 0.5)) if actual else np.nan
    return Estimate(value, value / spread, value * spread)


def experiment_analysis(
    arms: Integers,
    during: BucketDays,
    before: Floats | None = None,
    confidence: float = 0.95,
    ratios: Mapping[str, tuple[int, int]] = _RATIOS,
) -> ExperimentAnalysis:
    """RPM, CTR and ROI of each arm since an experiment began, and the lifts over the champion.

    arms : (buckets,) number of the arm of each bucket; at least two arms, the champion among them.
    during : the days on which the arms were as they are, one at least.
    before : (buckets, 4) sums of each bucket over the days before; none by default.
    confidence : with which an interval holds the truth on all days together.
    ratios : metrics by name, in place of RPM, CTR and ROI: the column above and that below.

    Returns: Metrics without a cost, an outcome or a value anywhere are left out. Intervals are
    always valid (`Looks`): they may be looked at every day. Each is on its own: of twenty,
    one misses. They are nan until 15 buckets of an arm bring its outcomes, cost or value: an arm
    with a handful of conversions says nothing yet.

    Metrics are ratios of sums over buckets, by the delta method (`UnitRatio`). The logarithm of a
    ratio is adjusted by what its buckets were like before: with c_b how much the metric of bucket b
    lay above that of all, linearised in the same way, and C_a its mean over arm a,

        ln ratio_a - theta C_a,   theta = sum of e_b c_b / sum of c_b ** 2,

    where e_b is how far bucket b moves the ratio of its arm now, and both are taken around the mean
    of the arm. C_a is 0 but for chance, so nothing is moved; what is like before, cancels.

    The sample ratio counts impressions of a bucket, adjusted alike: no arm should have more for a
    bucket than another. An arm that acts on impressions, such as through bids, may; then look
    whether requests differ. Its p-value may be looked at every day too, and is that of the smallest
    over the arms times their number.

    Sources: Deng, Xu, Kohavi and Walker, "Improving the sensitivity of online controlled
    experiments by utilizing pre-experiment data" (CUPED), WSDM 2013; Deng, Knoblich and Lu,
    "Applying the delta method in metric analytics", KDD 2018; Fabijan et al., KDD 2019.
    """
    sums = np.cumsum(during.sums, axis=0)
    before = np.zeros(sums.shape[1:]) if before is None else before
    names = [name for number, name in enumerate(ARMS) if (arms == number).any()]
    if CHAMPION not in names or len(names) < 2:
        raise ValueError(f"arms: must be the champion and another, not {', '.join(names)}")
    metrics = [name for name, (above, _) in ratios.items() if sums[-1, :, above].any()]
    ones = np.ones_like(sums[..., :1])
    sums, before = np.concatenate((sums, ones), 2), np.concatenate((before, ones[0]), 1)
    found = {name: _Metric.of(arms, sums, before, *ratios[name]) for name in metrics}
    alpha = 1.0 - confidence
    lifts = {
        arm: {name: metric.lifts(arm, alpha) for name, metric in found.items()} for arm in names[1:]
    }
    sizes = _Metric.of(arms, sums, before, IMPRESSIONS, VALUE + 1)
    latest = AbAnalysis(
        CHAMPION,
        {arm: _arm(arm, arms, sums[-1], found, alpha) for arm in names},
        {arm: {name: each[-1] for name, each in of_arm.items()} for arm, of_arm in lifts.items()},
        _sample_ratio(names, arms, sums[-1], sizes),
    )
    variance = {arm: {name: each.left(arm) for name, each in found.items()} for arm in names[1:]}
    clumping = {arm: _clumping(latest.arms[arm].clicks, found, arm) for arm in names}
    return ExperimentAnalysis(latest, tuple(during.days.tolist()), lifts, variance, clumping)


def _clumping(outcomes: float, found: Mapping[str, "_Metric"], arm: str) -> float:
    if "ctr" not in found:
        return np.nan
    return max(outcomes * found["ctr"].plain[arm][-1].precision()[0], 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Metric:
    """A ratio of two columns in each arm after each look, as it is and adjusted."""

    plain: Ratios
    adjusted: Ratios

    @classmethod
    def of(cls, arms: Integers, sums: Floats, before: Floats, x: int, y: int) -> "_Metric":
        inside = {name: arms == number for number, name in enumerate(ARMS) if number in arms}
        covariate = _linearised(before[:, x], before[:, y])
        plain: Ratios = {name: [] for name in inside}
        adjusted: Ratios = {name: [] for name in inside}
        for look in sums:
            now = {
                name: _ratio(look[:, x] * held, look[:, y] * held, int(held.sum()))
                for name, held in inside.items()
            }
            for name, each in _adjusted(now, inside, covariate):
                plain[name].append(now[name])
                adjusted[name].append(each)
        return cls(plain, adjusted)

    def lifts(self, arm: str, alpha: float) -> tuple[Estimate, ...]:
        """Over the champion, after each look."""
        factors, looks = self._over(arm, alpha)
        spread = looks.spread()
        ends = [(end - 1.0).tolist() for end in (factors, factors / spread, factors * spread)]
        return tuple(map(Estimate, *ends))

    def p_value(self, arm: str) -> float:
        """Of the lift over the champion, at the last look."""
        factors, looks = self._over(arm, SUSPICIOUS)
        return float(looks.p_values(np.log(factors))[-1])

    def left(self, arm: str) -> float:
        """Variance of the last lift over what it would be unadjusted; 1 where that is 0."""
        ends = [
            ratios[arm][-1].over(ratios[CHAMPION][-1]) for ratios in (self.adjusted, self.plain)
        ]
        adjusted, plain = (end.precision()[0] for end in ends)
        return adjusted / plain if plain else 1.0

    def of_arm(self, arm: str, alpha: float, factor: float) -> Estimate:
        """The ratio itself after the last look, unadjusted, times a factor."""
        ratios = self.plain[arm]
        spread = float(_looks(ratios, alpha).spread()[-1])
        value = factor * ratios[-1].value
        return Estimate(value, value / spread, value * spread)

    def _over(self, arm: str, alpha: float) -> tuple[Floats, Looks]:
        pairs = zip(self.adjusted[arm], self.adjusted[CHAMPION], strict=True)
        over = [each.over(other) for each, other in pairs]
        return np.array([each.value for each in over]), _looks(over, alpha)


def _ratio(x: Floats, y: Floats, units: int) -> UnitRatio:
    """Without influences while too few buckets bring x."""
    found = UnitRatio.of(x, y, units)
    if x.sum() ** 2 < LEAST_BUCKETS * (x @ x):
        return UnitRatio(found.value, np.full(len(x), np.nan), units)
    return found


def _looks(ratios: list[UnitRatio], alpha: float) -> Looks:
    variances, carriers = np.array([each.precision() for each in ratios]).T
    # The sum of squares is as uncertain as chi-square of twice as many degrees of freedom as units
    # carry it, at most: its relative variance is sum d^4 / (sum d^2)^2, and 2 / f that of f.
    freedom = np.fmin(2.0 * carriers, [max(each.units - 1, 1) for each in ratios])
    return Looks(variances, freedom, alpha)


def _linearised(x: Floats, y: Floats) -> Floats:
    """By how much the ratio of sums lies above that of all in each bucket, (buckets,), as a share
    of it and by weight; zeros where there is no ratio."""
    above, below = x.sum(), y.sum()
    if above == 0.0 or below == 0.0:
        return np.zeros(len(x))
    return np.asarray(len(x) * (x / above - y / below))


def _adjusted(
    now: Mapping[str, UnitRatio], inside: Mapping[str, NDArray[np.bool_]], covariate: Floats
) -> Iterator[tuple[str, UnitRatio]]:
    """The ratios of the arms without what their buckets were like before."""
    means = {name: float(covariate[held].mean()) for name, held in inside.items()}
    around = {name: (covariate - means[name]) * held for name, held in inside.items()}
    known = [name for name, each in now.items() if not np.isnan(each.influences).any()]
    products = sum(now[name].units * float(now[name].influences @ around[name]) for name in known)
    squares = sum(float(around[name] @ around[name]) for name in known)
    theta = products / squares if squares else 0.0
    for name, each in now.items():
        scale = theta / (each.units * max(each.units - 1, 1)) ** 0.5
        value = each.value * float(np.exp(-theta * means[name]))
        yield name, UnitRatio(value, each.influences - scale * around[name], each.units)


def _arm(
    name: str, arms: Integers, sums: Floats, found: Mapping[str, _Metric], alpha: float
) -> ArmAnalysis:
    held = sums[arms == ARMS.index(name)]
    impressions, outcomes, cost, value = held.sum(axis=0)[:4].tolist()
    factors = {metric: _PER_MILLE if metric == "rpm" else 1.0 for metric in found}
    metrics = {metric: each.of_arm(name, alpha, factors[metric]) for metric, each in found.items()}
    return ArmAnalysis(int(impressions), len(held), cost, outcomes, value, metrics)


def _sample_ratio(names: list[str], arms: Integers, sums: Floats, sizes: _Metric) -> SampleRatio:
    seen = sums[:, IMPRESSIONS]
    held = {name: arms == ARMS.index(name) for name in names}
    observed: dict[Hashable, int] = {name: int(seen[each].sum()) for name, each in held.items()}
    expected: dict[Hashable, float] = {
        name: float(seen.sum() * each.mean()) for name, each in held.items()
    }
    smallest = min(sizes.p_value(name) for name in names[1:])
    return SampleRatio("impressions", observed, expected, min((len(names) - 1) * smallest, 1.0))
