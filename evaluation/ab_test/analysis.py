"""The analysis of an A/B test: sample ratio, RPM, CTR, ROI of each arm, lifts over the control."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, stdtrit

from calibrators.samples import (
    Floats,
    Integers,
    check_equal_lengths,
    check_finite_sum,
    check_not_negative,
    check_unit_interval,
    sum_at,
)
from evaluation.metrics.predictions import Campaigns, encode_campaigns, ratio


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the ends of its confidence interval, which are nan where it has none."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class UnitRatio:
    """sum x / sum y over units that are independent of one another.

    By the delta method the logarithm of the ratio moves by x_u / sum x - y_u / sum y when unit u
    is drawn once more, so its variance is G / (G - 1) times the sum of the squares of that, with G
    units. It has no unit of money, and intervals on the scale of logarithms stay above 0.

    value : the ratio; over 0 it is infinite, and nan for 0 over 0.
    influences : (n_units,) as above, times the root of G / (G - 1); nan when a sum is 0 or fewer
        than two units take part, because then nothing says how far the ratio is known.
    units : G, how many take part.
    """

    value: float
    influences: Floats
    units: int

    @classmethod
    def of(cls, x: Floats, y: Floats, units: int) -> Self:
        """The ratio of x and y, (n_units,) each at least 0, of which `units` take part."""
        above, below = float(x.sum()), float(y.sum())
        if above == 0.0 or below == 0.0 or units < 2:
            influences = np.full(len(x), np.nan)
        else:
            influences = (x / above - y / below) * np.sqrt(units / (units - 1))
        return cls(ratio(above, below), influences, units)

    def estimate(self, confidence: float, factor: float = 1.0) -> Estimate:
        """The ratio times a factor, with Student's interval."""
        spread = self._spread(confidence)
        value = factor * self.value
        return Estimate(value, value / spread, value * spread)

    def lift_over(self, other: Self, confidence: float) -> Estimate:
        """How much higher the ratio is than another over the same units, as a share of that."""
        over = self.over(other).estimate(confidence)
        return Estimate(over.value - 1.0, over.lower - 1.0, over.upper - 1.0)

    def over(self, other: Self) -> Self:
        """This ratio over another over the same units; nan over 0 and over infinity.

        A unit that takes part in both, such as a campaign in two arms of a test, counts with the
        difference of its two influences, so what it does to both cancels.
        """
        comparable = 0.0 < other.value < float("inf")
        value = self.value / other.value if comparable else float("nan")
        differences = self.influences - other.influences
        return type(self)(value, differences, min(self.units, other.units))

    def precision(self) -> tuple[float, float]:
        """Variance of the logarithm, and the number of units that carry it; nan if unknown."""
        squares = self.influences**2
        variance = float(squares.sum())
        # As many as would carry the variance if each carried as much: when few clicks bring most of
        # the money, few units say how far the ratio is known, however many there are.
        return variance, ratio(variance**2, float((squares**2).sum()))

    def _spread(self, confidence: float) -> float:
        """The factor from the middle of an interval to its ends; nan without influences."""
        variance, carriers = self.precision()
        if not variance > 0.0:
            return float("nan") if np.isnan(variance) else 1.0
        quantile = stdtrit(min(self.units - 1, carriers), 0.5 + confidence / 2.0)
        with np.errstate(over="ignore"):
            return float(np.exp(quantile * variance**0.5))


class ArmLog:
    """One row for each impression, (n,); `clicks` and `values` are None where the log has none.

    names : the arms.
    arms : the arm of every impression, as an index into the names.
    units : the unit of every impression, from 0; without units every impression is its own.
    has_units : whether units were given.
    """

    def __init__(
        self,
        arms: Campaigns,
        costs: ArrayLike,
        values: ArrayLike | None,
        clicks: ArrayLike | None,
        units: Campaigns | None,
    ) -> None:
        """The columns as float64 and codes; ValueError names the first offending value."""
        self.names, self.arms = _encode("arms", arms)
        self.costs = _money("costs", costs)
        self.clicks = None if clicks is None else check_unit_interval("clicks", clicks)
        self.values = None if values is None else _money("values", values)
        self.has_units = units is not None
        of_each = np.arange(len(self.costs))
        self.units = of_each if units is None else _encode("units", units)[1]
        given = {"clicks": self.clicks, "values": self.values, "units": self.units}
        present = {name: column for name, column in given.items() if column is not None}
        check_equal_lengths(arms=self.arms, costs=self.costs, **present)

    def ratios(self, arm: Hashable) -> dict[str, UnitRatio]:
        """Of one arm "rpm" (of one impression, not a thousand), and "ctr" and "roi" if known."""
        impressions, cost = self.by_unit(arm, None), self.by_unit(arm, self.costs)
        units = int(np.count_nonzero(impressions))
        ratios = {"rpm": UnitRatio.of(cost, impressions, units)}
        if self.clicks is not None:
            ratios["ctr"] = UnitRatio.of(self.by_unit(arm, self.clicks), impressions, units)
        if self.values is not None:
            ratios["roi"] = UnitRatio.of(self.by_unit(arm, self.values), cost, units)
        return ratios

    def by_unit(self, arm: Hashable, column: Floats | None) -> Floats:
        """Sum of a column over the impressions of one arm and each unit, (n_units,).

        Without a column, how many they are.
        """
        rows = self.rows(arm)
        shown = np.ones(len(rows)) if column is None else column[rows]
        return sum_at(self.units[rows], shown, int(self.units.max(initial=-1)) + 1)

    def total(self, arm: Hashable, column: Floats | None) -> float:
        """Sum of a column over the impressions of one arm; nan without the column."""
        return float("nan") if column is None else float(column[self.rows(arm)].sum())

    def rows(self, arm: Hashable) -> Integers:
        """The impressions of one arm."""
        return np.flatnonzero(self.arms == self.names.index(arm))

    def sizes(self, counted: str) -> Mapping[Hashable, int]:
        """How many "units" or "impressions" each arm has."""
        if counted == "impressions":
            counts = np.bincount(self.arms, minlength=len(self.names))
            return dict(zip(self.names, counts.tolist(), strict=True))
        return {name: len(np.unique(self.units[self.rows(name)])) for name in self.names}

    @property
    def units_keep_to_one_arm(self) -> bool:
        """Whether no unit is in two arms."""
        first = np.zeros(int(self.units.max(initial=-1)) + 1, np.int64)
        first[self.units] = self.arms
        return bool((first[self.units] == self.arms).all())


def _encode(column: str, keys: Campaigns) -> tuple[list[Hashable], Integers]:
    names, codes = encode_campaigns(keys)
    if None in names:
        row = int(np.argmax(codes == names.index(None)))
        given = list(keys)[row]
        raise ValueError(f"{column}[{row}] = {given}: every value must be a name or a number")
    return names, codes.astype(np.int64, copy=False)


def _money(name: str, values: ArrayLike) -> Floats:
    amounts = check_not_negative(name, values)
    check_finite_sum(name, amounts)
    return amounts


Counted = Literal["units", "impressions"]
SUSPICIOUS = 0.001
"""A p-value below it is a mismatch: one test in a thousand, so that alarms are worth a look."""


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """Sizes of the arms beside what the split says.

    counted : what was counted, "units" or "impressions".
    observed : how many each arm has.
    expected : how many it would have by the split.
    p_value : of the chi-square test: how often chance alone makes sizes that far off.
    """

    counted: Counted
    observed: Mapping[Hashable, int]
    expected: Mapping[Hashable, float]
    p_value: float

    @property
    def mismatch(self) -> bool:
        """Whether the sizes are too far off for chance, p < 0.001: then trust no other number."""
        return self.p_value < SUSPICIOUS


def sample_ratio(
    counted: Counted, sizes: Mapping[Hashable, int], split: Mapping[Hashable, float] | None
) -> SampleRatio:
    """The check of two arms or more; without a split they should be of equal size.

    Raises ValueError when the split does not name exactly the arms, or a share is not finite and
    above 0.

    Source: Fabijan et al., "Diagnosing sample ratio mismatch in online controlled experiments", KDD
    2019.

    >>> check = sample_ratio("units", {"a": 50_500, "b": 49_500}, None)
    >>> round(check.p_value, 4), check.mismatch
    (0.0016, False)
    """
    shares = _shares(sizes, split)
    observed = np.array(list(sizes.values()), float)
    expected = observed.sum() * shares
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return SampleRatio(
        counted,
        dict(sizes),
        dict(zip(sizes, expected.tolist(), strict=True)),
        float(chdtrc(len(sizes) - 1, statistic)),
    )


def _shares(sizes: Mapping[Hashable, int], split: Mapping[Hashable, float] | None) -> Floats:
    if split is None:
        return np.full(len(sizes), 1.0 / len(sizes))
    if split.keys() != sizes.keys():
        listed = ", ".join(sorted(map(repr, sizes)))
        raise ValueError(f"split = {dict(split)}: must name exactly the arms, which are {listed}")
    for arm, share in split.items():
        if not (np.isfinite(share) and share > 0.0):
            raise ValueError(f"split[{arm!r}] = {share}: must be finite and above 0")
    shares = np.array([float(split[arm]) for arm in sizes])
    normed: Floats = shares / shares.sum()
    return normed


LiftConclusion = Literal["higher", "lower", "no clear difference", "undefined"]
_PER_MILLE = 1000.0


@dataclass(frozen=True, slots=True)
class ArmAnalysis:
    """One arm of a test.

    impressions, units : how many; without units every impression is one.
    cost, clicks, value : their sums; nan where the log does not have them.
    metrics : "rpm", and where the log allows "ctr" and "roi", each with its interval.
    """

    impressions: int
    units: int
    cost: float
    clicks: float
    value: float
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class AbAnalysis:
    """What a test says.

    control : the arm that the others are compared with.
    arms : the control first, then the others by name.
    lifts : for every other arm and metric, the relative lift over the control: 0.05 is 5 % more.
    sample_ratio : whether the arms have the sizes they should. On a mismatch believe nothing else.
    """

    control: Hashable
    arms: Mapping[Hashable, ArmAnalysis]
    lifts: Mapping[Hashable, Mapping[str, Estimate]]
    sample_ratio: SampleRatio

    def conclusion(self, arm: Hashable, metric: str) -> LiftConclusion:
        """In words, by whether the interval of the lift holds 0."""
        lift = self.lifts[arm][metric]
        if np.isnan(lift.lower):
            return "undefined"
        if lift.lower > 0.0:
            return "higher"
        return "lower" if lift.upper < 0.0 else "no clear difference"


def ab_analysis(
    arms: Campaigns,
    costs: ArrayLike,
    values: ArrayLike | None = None,
    *,
    clicks: ArrayLike | None = None,
    control: Hashable,
    units: Campaigns | None = None,
    split: Mapping[Hashable, float] | None = None,
    confidence: float = 0.95,
) -> AbAnalysis:
    """RPM, CTR and ROI of each arm, and by how much the other arms lift them over the control.

    Every row is one impression, also those that cost nothing: without them RPM and CTR are wrong.

    - RPM, revenue per mille, is what the platform earns with 1,000 impressions:
      1000 * sum of costs / impressions.
    - CTR is clicks / impressions.
    - ROI, return on investment, is what the advertiser gets for what he pays: sum of values / sum
      of costs.

    arms : (n,) the arm of each impression, any hashable keys; two different ones at least.
    costs : (n,) finite, at least 0: what the advertiser was charged for it, in any currency.
    values : (n,) finite, at least 0: what its conversions were worth to him, in that currency.
    clicks : (n,) in [0, 1], 1 where it was clicked.
    control : the arm that the others are compared with.
    units : (n,) what was drawn into the arms, or what makes rows alike: the user, the campaign;
        any hashable keys. Without it impressions count as independent, and where one user sees
        many the intervals are too narrow.
    split : the share of the traffic that each arm was meant to get, in any scale; by default equal.
    confidence : coverage of each interval on its own, between 0 and 1.

    Returns: A metric over 0 is infinite, and nan for 0 over 0. An interval is nan where nothing
    says how wide it is: an arm with a sum of 0 (no click, no cost) or with a single unit. The lift
    over a control at 0 is nan. Every interval ignores the others: of twenty, one misses.

    Raises ValueError when there are fewer than two arms, the control is none of them, the split
    does not name them all, columns differ in length or a value breaks its rule; it is named.

    All three are ratios of sums, so the unit-clustered delta method gives the intervals, on the
    scale of logarithms. Unit u with sums x_u over y_u moves ln(sum x / sum y) by d_u = x_u / sum x
    - y_u / sum y; the variance is G / (G - 1) * sum of d_u^2 over the G units of the arm. For a
    lift it is that of the difference of the two arms' d_u, so a unit in both arms, such as a
    campaign, counts once. Ends are exp(ln ratio +- t standard errors) with Student's t. Its degrees
    of freedom are (sum of d_u^2)^2 / sum of d_u^4, the number of units that carry the variance, at
    most G - 1 of the smaller arm. With thousands of clicks that is the normal interval; with a
    handful of conversions, where the normal one would cover three times in four only, it is as
    wide as it must be.

    The sizes of the arms are checked by chi-square: their units where no unit is in two arms, else
    their impressions. Impressions that depend on the treatment, such as auctions won, may differ
    for good reason; then check the users, or the requests.

    Source: Deng et al. (paper 004), section 5.3 and Table 3 (RPM +3.86 %, CTR +8.93 %, ROI +5.07 %,
    no intervals); its footnote 5 defines ROI.

    >>> arms = ["A"] * 1000 + ["B"] * 1000
    >>> clicks = [1, 0, 0, 0] * 250 + [1, 0] * 500
    >>> costs = [0.4, 0, 0, 0] * 250 + [0.3, 0] * 500
    >>> analysis = ab_analysis(arms, costs, clicks=clicks, control="A")
    >>> round(analysis.arms["B"].metrics["rpm"].value, 6), analysis.arms["B"].metrics["ctr"].value
    (150.0, 0.5)
    >>> lift = analysis.lifts["B"]["rpm"]
    >>> round(lift.value, 6), round(lift.lower, 3), round(lift.upper, 3)
    (0.5, 0.325, 0.698)
    >>> analysis.conclusion("B", "ctr"), analysis.sample_ratio.mismatch
    ('higher', False)
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
    log = ArmLog(arms, costs, values, clicks, units)
    names = _ordered(log.names, control)
    ratios = {name: log.ratios(name) for name in names}
    counted: Counted = "units" if log.has_units and log.units_keep_to_one_arm else "impressions"
    sizes = log.sizes(counted)
    return AbAnalysis(
        control=control,
        arms={name: _arm(log, name, ratios[name], confidence) for name in names},
        lifts={name: _lifts(ratios[name], ratios[control], confidence) for name in names[1:]},
        sample_ratio=sample_ratio(counted, {name: sizes[name] for name in names}, split),
    )


def _ordered(names: list[Hashable], control: Hashable) -> list[Hashable]:
    """The control, then the other arms by name."""
    listed = ", ".join(sorted(map(repr, names))) or "none"
    if control not in names:
        raise ValueError(f"control = {control!r}: must be one of the arms, which are {listed}")
    if len(names) < 2:
        raise ValueError(f"arms: there is only {listed}, and nothing to compare it with")
    return [control, *sorted((name for name in names if name != control), key=str)]


def _arm(
    log: ArmLog, name: Hashable, ratios: Mapping[str, UnitRatio], confidence: float
) -> ArmAnalysis:
    return ArmAnalysis(
        impressions=log.sizes("impressions")[name],
        units=ratios["rpm"].units,
        cost=log.total(name, log.costs),
        clicks=log.total(name, log.clicks),
        value=log.total(name, log.values),
        metrics={
            metric: each.estimate(confidence, _PER_MILLE if metric == "rpm" else 1.0)
            for metric, each in ratios.items()
        },
    )


def _lifts(
    ratios: Mapping[str, UnitRatio], control: Mapping[str, UnitRatio], confidence: float
) -> dict[str, Estimate]:
    return {metric: ratios[metric].lift_over(control[metric], confidence) for metric in ratios}
