"""The impressions of an A/B test, checked, with what each arm earned by unit."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import (
    Floats,
    Integers,
    check_equal_lengths,
    check_finite_sum,
    check_not_negative,
    check_unit_interval,
)
from evaluation.campaign_codes import Campaigns, encode_campaigns
from evaluation.sums import sum_at
from evaluation.unit_ratio import UnitRatio


@dataclass(frozen=True, slots=True, eq=False)
class ArmLog:
    """One row for each impression, (n,); `clicks` and `values` are None where the log has none.

    Attributes
    ----------
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
