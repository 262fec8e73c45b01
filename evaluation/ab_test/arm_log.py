"""The impressions of an A/B test by arm and unit, and ratios of sums with their intervals."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from calibrators.samples import (
    Floats,
    Integers,
    check_equal_lengths,
    check_finite_sum,
    check_not_negative,
    check_unit_interval,
    sum_at,
)
from evaluation.metrics.predictions import Campaigns, encode_campaigns
from evaluation.metrics.sums import ratio


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


@dataclass(frozen=True, slots=True, eq=False)
class ArmLog:
    """One row for each impression, (n,); `clicks` and `values` are None where the log has none.

    names : the arms.
    arms : the arm of every impression, as an index into the names.
    units : the unit of every impression, from 0; without units every impression is its own.
    has_units : whether units were given.
    """

    names: list[Hashable]
    arms: Integers
    units: Integers
    has_units: bool
    costs: Floats
    clicks: Floats | None
    values: Floats | None

    @classmethod
    def check(
        cls,
        arms: Campaigns,
        costs: ArrayLike,
        values: ArrayLike | None,
        clicks: ArrayLike | None,
        units: Campaigns | None,
    ) -> Self:
        """The columns as float64 and codes; ValueError names the first offending value."""
        names, codes = _encode("arms", arms)
        paid = _money("costs", costs)
        clicked = None if clicks is None else check_unit_interval("clicks", clicks)
        earned = None if values is None else _money("values", values)
        unit_of = np.arange(len(paid)) if units is None else _encode("units", units)[1]
        given = {"clicks": clicked, "values": earned, "units": unit_of}
        present = {name: column for name, column in given.items() if column is not None}
        check_equal_lengths(arms=codes, costs=paid, **present)
        return cls(names, codes, unit_of, units is not None, paid, clicked, earned)

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
    for code, name in enumerate(names):
        if name is None or name != name:
            row = int(np.argmax(codes == code))
            raise ValueError(f"{column}[{row}] = {name}: every value must be a name or a number")
    return names, codes.astype(np.int64, copy=False)


def _money(name: str, values: ArrayLike) -> Floats:
    amounts = check_not_negative(name, values)
    check_finite_sum(name, amounts)
    return amounts
