"""Products of targets evaluated as one: what their probabilities add up to over trials, beside what
came of them. Factors that are calibrated each need not have a calibrated product: see
docs/composite-targets.md.

Of `click` and one delayed target trials are impressions, and what came are the conversions that are
expected of the clicks of the same hours. Of several delayed targets nobody knows how those that are
still expected go together, so clicks count once all attribution windows are over: by then the bins
of their impressions are gone, whose sums by hour are kept in the report. Outcomes that are sent of
a product have both sides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, isnan, nan, pi, sqrt
from typing import Any, Final

import numpy as np

from app.click_log.log import ClickLog
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage import keys
from app.storage.bins import BinsStore
from app.storage.keys import closed_hours
from app.worker.relabelling import RelabelledClicks
from calibrators.samples import Floats, Integers

Report = dict[str, Any]

_SUMS: Final = ("trials", "predicted", "variance", "clicks", "positives")
_MATERIAL: Final = 0.05
"""As for PCOC of targets: less than this is no fault, whatever the traffic."""
_FLOORS: Final = 5
"""Floors, four standard deviations: 16,000 looks at what is right have one beyond them."""
_EVALUATED: Final = ("evaluated_until", "hour", "window", "off")
_BY_HOUR: Final = "by_hour"
"""Number, sum and variance of the probabilities of an hour's impressions, behind the hour."""


@dataclass(frozen=True, slots=True)
class ProductEvaluation:
    """At a refit of the delayed target as of a moment (epoch seconds)."""

    bins: BinsStore
    log: ClickLog
    settings: Settings
    target: str
    as_of: float

    def of(
        self, recent: RelabelledClicks | None, before: Mapping[str, Report]
    ) -> dict[str, Report]:
        """How the products do of which this target tells what came, by name, given the report
        `before`. Those of one delayed target over the whole hours of the `recent` clicks, and none
        while these have no labels."""
        names = [
            one for one in self.settings.products if self.settings.evaluated_by(one) == self.target
        ]
        single = [name for name in names if len(self.settings.delayed_factors(name)) == 1]
        found = {name: self._expected(name, recent) for name in single if recent is not None}
        final = {name: self._final(name, before.get(name, {})) for name in {*names} - {*single}}
        return {name: both[name] for both in (found | final,) for name in names if name in both}

    def _expected(self, name: str, recent: RelabelledClicks) -> Report:
        first, behind = (
            ceil(recent.span[0] / SECONDS_PER_HOUR),
            floor(recent.span[1] / SECONDS_PER_HOUR),
        )
        trials = _sums(self.bins, keys.product(name), first - 1, behind)[:, :3]
        at = recent.clicks.clicks.clicked_at
        hours = _by_hour(at, first, behind, np.ones(len(at)), recent.labels)
        return _evaluated(_whole(trials, hours), behind)

    def _final(self, name: str, before: Report) -> Report:
        """Over the newest hours of which nothing can change any more."""
        factors, window = self.settings.delayed_factors(name), self.settings.window_hours
        longest = max(map(self.settings.attribution_seconds, factors))
        newest = floor((self.as_of - self.settings.post_click_seconds) / SECONDS_PER_HOUR)
        behind = min(newest, floor((self.as_of - longest) / SECONDS_PER_HOUR))
        at, predicted, converted = self._clicks(factors, behind - window, behind)
        ones, variance = np.ones(len(at)), predicted * (1.0 - predicted)
        if len(factors) == len(self.settings.products[name]):
            trials = (ones, predicted, variance, ones, converted)
            return _evaluated(_by_hour(at, behind - window, behind, *trials), behind)
        kept = self._kept(name, before.get(_BY_HOUR, ()), behind - window - 1, newest)
        sums = [kept.get(hour, [0.0] * 3) for hour in range(behind - window - 1, behind)]
        hours = _by_hour(at, behind - window, behind, ones, converted)
        report = _evaluated(_whole(np.array(sums), hours), behind)
        return {**report, _BY_HOUR: [[hour, *sums] for hour, sums in sorted(kept.items())]}

    def _kept(self, name: str, before: Any, first: int, newest: int) -> dict[int, list[float]]:
        """Sums of impressions of [first, newest): what was read before, and what is in the bins."""
        kept = {int(hour): sums for hour, *sums in before if hour >= first}
        start = newest - self.settings.window_hours
        rows = _sums(self.bins, keys.product(name), start, newest)[:, :3].tolist()
        return kept | {hour: row for hour, row in enumerate(rows, start) if row[0]}

    def _clicks(
        self, factors: tuple[str, ...], first: int, behind: int
    ) -> tuple[Floats, Floats, Floats]:
        """Clicks with known scores of all factors: their moments, the products of what their scores
        were calibrated to, and 1 for those that converted for each factor, (n,)."""
        span = float(first * SECONDS_PER_HOUR), float(behind * SECONDS_PER_HOUR)
        windows = map(self.settings.attribution_seconds, factors)
        (clicks, known), *others = (
            self.log.known(factor, *span, self.as_of, window)
            for factor, window in zip(factors, windows, strict=True)
        )
        rows, predicted = np.arange(len(clicks)), clicks.probabilities
        converted = known.converted.astype(np.float64)
        for other, attribution in others:
            places = clicks.rows_in(other)
            rows = rows[places[rows] >= 0]
            predicted = predicted * np.append(other.probabilities, nan)[places]
            converted = converted * np.append(attribution.converted, 0.0)[places]
        rows = rows[~np.isnan(predicted[rows])]
        return clicks.clicks.clicked_at[rows], predicted[rows], converted[rows]


def products_report(
    bins: BinsStore, settings: Settings, as_of: float, targets: Mapping[str, Any]
) -> dict[str, Any]:
    """What a version's report says of products, given what it says of targets."""
    products: dict[str, Report] = {}
    for name, factors in settings.products.items():
        source = settings.evaluated_by(name)
        found = targets.get(source, {}).get("products", {}).get(name, {})
        if not settings.delayed_factors(name):
            found = _of_outcomes(bins, settings, name, as_of)
        evaluated = {field: found.get(field) for field in _EVALUATED}
        products[name] = {"factors": list(factors), "evaluated_by": source, **evaluated}
    return {"products": products}


def _of_outcomes(bins: BinsStore, settings: Settings, name: str, as_of: float) -> Report:
    """Over the hours that are closed."""
    behind = closed_hours(as_of)
    sums = _sums(bins, keys.product_outcomes(name), behind - settings.window_hours, behind)
    return _evaluated(np.insert(sums, 3, nan, axis=1), behind)


def _sums(bins: BinsStore, trials: str, first: int, behind: int) -> Floats:
    """Number, sum and variance of the probabilities of each hour, and positives, (hours, 4)."""
    found = np.zeros((behind - first, 4))
    for block in bins.history(trials, first, behind):
        for hour, table in block.items():
            p, outcomes, n, _ = table.samples()
            sums = n.sum(), (n * p).sum(), (n * p * (1 - p)).sum(), (n * outcomes).sum()
            found[hour - first] += sums
    return found


def _by_hour(at: Floats, first: int, behind: int, *columns: Floats) -> Floats:
    """Sums of the columns, each (n,) of the moments `at`, (hours, columns)."""
    hours: Integers = np.floor(at / SECONDS_PER_HOUR).astype(np.int64) - first
    chosen = (hours >= 0) & (hours < behind - first)
    sums = [np.bincount(hours[chosen], one[chosen], minlength=behind - first) for one in columns]
    return np.array(sums, np.float64).T


def _whole(trials: Floats, outcomes: Floats) -> Floats:
    """Both sides of whole hours, nothing of others: trials of one hour more, which is the first,
    (hours + 1, 3), beside outcomes, (hours, 2)."""
    # Trials may have begun, or bins ended, within an hour: one behind another with trials is whole.
    whole = (trials[1:, 0] > 0) & (trials[:-1, 0] > 0)
    return np.hstack([trials[1:], outcomes]) * whole[:, None]


def _evaluated(hours: Floats, behind: int) -> Report:
    """What is reported of _SUMS of hours, (hours, 5), the last of which ends at `behind`."""
    window = hours.sum(axis=0)
    return {
        "evaluated_until": float(behind * SECONDS_PER_HOUR),
        "hour": _row(hours[-1]) if len(hours) else None,
        "window": _row(window),
        "off": _is_off(window) if window[0] else None,
    }


def _row(sums: Floats) -> Report | None:
    """What is reported of some hours; None without trials."""
    found = dict(zip(_SUMS, sums.tolist(), strict=True))
    if not found["trials"]:
        return None
    predicted, positives = found["predicted"], found["positives"]
    variance = found.pop("variance")
    return {
        **found,
        "clicks": None if isnan(found["clicks"]) else found["clicks"],
        "pcoc": predicted / positives if positives else None,
        "pcoc_floor": sqrt(2 / pi * variance) / predicted if predicted else None,
    }


def _is_off(window: Floats) -> bool:
    """Whether the sum of a window is off by more than chance explains, and than matters."""
    _, predicted, variance, _, positives = window.tolist()
    by_chance = _FLOORS * sqrt(2 / pi * variance)
    return bool(abs(predicted - positives) > max(by_chance, _MATERIAL * predicted))
