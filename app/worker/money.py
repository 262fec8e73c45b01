"""Money and units of immediate targets, where any were sent: sums by hour for the report, and days
of units for A/B analyses.

Money of an hour is evaluated with the maps that served it, like all of the report, when it closes
and once more an hour later; its sums stay in the report from refit to refit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from app.storage.bins import BinsStore
from app.worker.atlas_cache import AtlasCache
from app.worker.hours import SECONDS
from calibrators import Atlas, BinsTable
from calibrators.bins.fixed_point import grand_total

_SUMS: Final = (
    *("cost", "value", "impressions", "outcomes"),
    *("earned", "expected_raw", "expected"),
)
"""Of an hour: the first four as the report shows them, then sums of bid x outcome, bid x score and
bid x calibrated probability."""

Row = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class MoneyReport:
    """Reads the ledgers of money and bids; `history` are the manifests of the versions kept, newest
    first."""

    bins: BinsStore
    cache: AtlasCache
    history: Sequence[Mapping[str, Any]]
    versions_kept: int
    window_hours: int

    def of(self, target: str, closed: int, before: Mapping[str, Any]) -> dict[str, Any]:
        """`money` of a target's report; nothing where no money was sent within the window.

        `hour` is the newest closed hour and `window` all of the window that were evaluated, each
        with the sums cost, value, impressions and outcomes, and, None where undefined:

            rpm       cost of a thousand impressions
            roi       value / cost
            ropr      sum of bid x outcome / sum of bid x calibrated probability
            ropr_raw  the same of the scores

        `hours` are the sums, `_SUMS`, by hour. COPC in money, value over predicted value, is not
        among them: nobody sends a predicted value.
        """
        first = closed - self.window_hours
        known = {int(h): row for h, row in (before.get("money") or {}).get("hours", {}).items()}
        until = int(before.get("judged_until") or 0) // SECONDS
        # The newest of them once more: its late clicks are in now.
        known |= {hour: self._sums(target, hour) for hour in range(max(first, until - 1), closed)}
        hours = {str(hour): row for hour, row in sorted(known.items()) if row and hour >= first}
        if not hours:
            return {}
        newest = hours.get(str(closed - 1))
        rows = {"hour": _row([newest] if newest else []), "window": _row(hours.values())}
        return {"money": {**rows, "hours": hours}}

    def _sums(self, target: str, hour: int) -> list[float] | None:
        """None of an hour without money, or whose maps nobody knows any more."""
        bids = list(self.bins.ledger(target, "bid", hour, hour + 1))
        paid = list(self.bins.ledger(target, "money", hour, hour + 1))
        if not any(map(len, (*bids, *paid))):
            return None
        served = self.cache.serving(hour, self.history, self.versions_kept)
        if served is None:
            return None
        atlas = served.atlases.get(target, Atlas.empty())
        cost, _, value = _totals(paid)
        impressions, _, outcomes = _totals(self.bins.shards_of_hour(target, hour))
        _, expected_raw, earned = _totals(bids)
        _, expected, _ = _totals(map(atlas.calibrated, bids))
        return [cost, value, impressions, outcomes, earned, expected_raw, expected]


def _totals(tables: Iterable[BinsTable]) -> list[float]:
    """Weights, weighted scores and positives of all tables."""
    found = np.zeros(3)
    for table in tables:
        found += [*map(grand_total, (table.counts, table.score_sums, table.positives))]
    return [float(total) for total in found]


def _row(hours: Iterable[list[float]]) -> Row:
    sums = np.array([*hours]).reshape(-1, len(_SUMS)).sum(axis=0).tolist()
    named = dict(zip(_SUMS, sums, strict=True))
    rpm = _over(named["cost"], named["impressions"])
    return {
        **{name: named[name] for name in _SUMS[:4]},
        "rpm": None if rpm is None else 1000 * rpm,
        "roi": _over(named["value"], named["cost"]),
        "ropr": _over(named["earned"], named["expected"]),
        "ropr_raw": _over(named["earned"], named["expected_raw"]),
    }


def _over(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def take_in_units(bins: BinsStore, target: str, closed: int, window: int) -> None:
    """Add the hours below `closed` but the last, whose late clicks are still to come, once each;
    where there never were any units only the newest is looked at."""
    complete, days = closed - 1, bins.unit_days
    first = max(days.until(target) or complete - 1, complete - window)
    for hour in range(first, complete):
        units = BinsTable.merge(bins.ledger(target, "units", hour, hour + 1))
        if len(units):
            money = BinsTable.merge(bins.ledger(target, "unit_money", hour, hour + 1))
            days.add(target, hour, units, money)
