"""The numbers of the report: out-of-sample quality of the last hour and of the window, which
campaigns are off beyond chance, and what hours cost and brought.

Each closed hour is binned by the probabilities that served it, from maps fitted before it began.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self

import numpy as np

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.experiments import CHALLENGER_OF
from app.storage.keys import SHARDS
from app.worker.atlas_cache import AtlasCache, CachedVersion
from calibrators import Atlas, Bins, BinsTable
from calibrators.bins.codecs import from_fixed, grand_total
from calibrators.evidence import DIRECTIONS, SUMS, PcocEvidence, bound_of
from calibrators.peers import Part, as_array, listed_in
from calibrators.samples import Floats, give_heap_back
from evaluation.metrics.calibration import BinnedScorecard

Row = Mapping[str, float | None]
_log = logging.getLogger(__name__)


def scorecard_of(tables: Iterable[BinsTable], *, floors: bool = False) -> Row:
    """The scorecard of tables, each asked for when the one before is done with."""
    scorecard = BinnedScorecard(floors=floors)
    for table in tables:
        scorecard.add(table)
    return scorecard.row()


class TopCampaigns:
    """The campaigns with the most samples, with their PCOC before and after calibration, of tables
    that come one after the other, all raw ones first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.entries: list[dict[str, Any]] = []

    def add(self, raw: BinsTable) -> None:
        """Take in a table of scores; none has a campaign of another's."""
        samples, positives = raw.totals()
        order = np.argsort(-samples, kind="stable")[: self._count]
        self.join(
            {
                "campaign": raw.campaigns[row],
                "n": float(samples[row]),
                "positives": float(positives[row]),
                "pcoc_raw": _pcoc(raw.bins(raw.campaigns[row])),
                "pcoc_calibrated": None,
            }
            for row in order.tolist()
        )

    def join(self, entries: Iterable[dict[str, Any]]) -> None:
        """Take in the entries of another's tables, or what another has added to its own."""
        both = sorted((*self.entries, *entries), key=lambda one: one["pcoc_calibrated"] is not None)
        known = {one["campaign"]: one for one in both}
        # Ties are broken by name, so that the labels of a gauge do not flicker.
        ranked = sorted(known.values(), key=lambda one: (-one["n"], one["campaign"]))
        self.entries = ranked[: self._count]

    def add_calibrated(self, table: BinsTable) -> None:
        """Take in a table of probabilities; none has a campaign of another's."""
        for entry in self.entries:
            bins = table.bins(entry["campaign"])
            if len(bins.cells):
                entry["pcoc_calibrated"] = _pcoc(bins)


def _pcoc(bins: Bins) -> float | None:
    return bins.total_score / bins.total_positives if bins.total_positives > 0 else None


# An hour is evaluated when it closes and once more an hour later, when its late clicks are in.
_EVALUATED_HOURS = 2


@dataclass(frozen=True, slots=True)
class PrequentialEvaluation:
    """Hours of immediate targets, each evaluated with maps fitted on hours before it; `history` are
    the manifests of the versions kept, newest first."""

    settings: Settings
    bins: BinsStore
    cache: AtlasCache
    history: Sequence[Mapping[str, Any]]

    def run(self, closed: int, again: bool) -> None:
        """Evaluate what is not evaluated yet of the window that ends with the hours below
        `closed`; the newest hours `again`."""
        hours = range(closed - self.settings.window_hours, closed)
        for target in self.settings.targets:
            for hour, in_force in self._left(target, hours, again):
                self._bin(target, target, hour, in_force.atlases.get(target, Atlas.empty()))

    def run_challenger(self, target: str, hours: range, again: bool) -> None:
        """The same of the maps on trial of a target, in hours up to the newest that is closed."""
        for hour, in_force in self._left(CHALLENGER_OF(target), hours, again):
            on_trial = in_force.steering.challengers.get(target)
            if on_trial is not None:
                self._bin(target, CHALLENGER_OF(target), hour, on_trial)

    def _left(self, name: str, hours: range, again: bool) -> Iterator[tuple[int, CachedVersion]]:
        complete = hours.stop - _EVALUATED_HOURS if again else hours.stop
        known = self.bins.calibrated_hours(name, hours.start, complete)
        for hour in sorted(set(hours) - known):
            in_force = self.cache.serving(hour, self.history)
            if in_force is not None:
                yield hour, in_force

    def _bin(self, target: str, name: str, hour: int, in_force: Atlas) -> None:
        ratios = effects_in(self.bins, target, hour, in_force)
        served = self.bins.shards_of_hour(target, hour)
        found = (in_force.calibrated(table, ratios) for table in served)
        self.bins.write_calibrated(name, hour, found)


def effects_in(bins: BinsStore, target: str, hour: int, atlas: Atlas) -> Mapping[str, float]:
    """By which ratio the effects of an atlas moved the odds of campaigns in an hour, on their mean:
    bins know no fields, and maps are fitted to be right with what effects add."""
    if atlas.effects is None:
        return {}
    return atlas.effects.campaign_means(bins.field_tables(target, hour).campaigns)


_WHOLE = ("",)


@dataclass(frozen=True, slots=True)
class PcocBounds:
    """Which campaigns of an immediate target are off beyond chance, and whether the target is."""

    bins: BinsStore
    window_hours: int

    def take_in(self, target: str, closed: int) -> None:
        """Add, once each, the hours that were evaluated for the last time, by the refit that finds
        the hours below `closed` closed."""
        complete = closed - _EVALUATED_HOURS + 1
        known = self.bins.evidence.read(target, None).until
        for hour in range(max(known, complete - self.window_hours), complete):
            self._add(target, hour)

    def _add(self, target: str, hour: int) -> None:
        whole = np.zeros((2, 1))
        for shard, table in enumerate(self.bins.shards_of_hour(target, hour, calibrated=True)):
            outcomes = table.outcomes()
            whole += np.array(outcomes).sum(axis=1, keepdims=True)
            if len(table):
                self._store(target, shard, hour, table.campaigns, outcomes)
        # Last, because it says which hours are done.
        self._store(target, None, hour, _WHOLE, (whole[0], whole[1]))

    def _store(
        self,
        target: str,
        shard: int | None,
        hour: int,
        campaigns: tuple[str, ...],
        outcomes: tuple[Floats, Floats],
    ) -> None:
        before = self.bins.evidence.read(target, shard)
        if before.until <= hour:
            self.bins.evidence.write(target, shard, before.after(hour, campaigns, *outcomes))

    def report(self, target: str) -> dict[str, Any]:
        """How many campaigns are off, by direction, by what evidence; and the target's own."""
        found = np.hstack([part.directions for part in self.bins.evidence.shards(target)])
        bound = bound_of(found.shape[1])
        off = (found >= bound).sum(axis=1).tolist()
        return {
            "campaigns": found.shape[1],
            "bound": bound,
            "off": dict(zip(DIRECTIONS, off, strict=True)),
            "target": _of_whole(self.bins.evidence.read(target, None)),
        }


def _of_whole(evidence: PcocEvidence) -> Row | None:
    """A target's PCOC, where it lies, and the evidence that it is off; None before it was seen."""
    if not evidence.campaigns:
        return None
    said = dict(zip(SUMS, evidence.values[: len(SUMS), 0].tolist(), strict=True))
    named = dict(zip(DIRECTIONS, evidence.directions[:, 0].tolist(), strict=True))
    numbers = {**{name: said[name] for name in ("lower", "upper")}, **named}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


class TargetScorecards:
    """Of a target, as far as tables were taken in, which have no campaign in common: the top
    campaigns, and the quality of scores, and of the probabilities that were served, in the window
    and in its newest hour."""

    def __init__(self, count: int) -> None:
        """Before any table, for so many top campaigns."""
        self.top = TopCampaigns(count)
        self.raw, self.hour_raw = BinnedScorecard(), BinnedScorecard()
        self.calibrated, self.hour_calibrated = (BinnedScorecard(floors=True) for _ in range(2))

    def add(self, table: BinsTable) -> None:
        """Take in a table of the window's scores; a campaign's impressions of all versions of the
        model are one."""
        whole = table.without_versions()
        self.raw.add(whole)
        self.top.add(whole)

    @property
    def sums(self) -> list[Part]:
        """What the report is made of; see `join`."""
        return [(as_array(self.top.entries),), *(card.sums for card in self._cards)]

    def join(self, parts: Sequence[Part]) -> None:
        """Take in the `sums` of other shards, of one worker after the other."""
        each = 1 + len(self._cards)
        for (entries,), *sums in (parts[at : at + each] for at in range(0, len(parts), each)):
            self.top.join(listed_in(entries))
            for card, own in zip(self._cards, sums, strict=True):
                card.join(own)

    @property
    def _cards(self) -> tuple[BinnedScorecard, ...]:
        return self.raw, self.calibrated, self.hour_raw, self.hour_calibrated

    def report(self, closed: int) -> dict[str, Any]:
        """As the report has it, of the hours below `closed`."""
        raw, calibrated, *hour = [card.row() for card in self._cards]
        return {
            "judged_until": closed * SECONDS_PER_HOUR,
            "hour": dict(zip(("raw", "calibrated"), hour, strict=True)),
            "window": {"raw": raw, "calibrated": calibrated},
            "top": self.top.entries,
        }


@dataclass(slots=True)
class RawWindow:
    """The window of a report: its hours, how many top campaigns are listed, and what was `found`
    when all of its bins had gone by, if they did; all of the report if it is `complete`, where
    other workers helped."""

    hours: range
    count: int
    found: TargetScorecards | None = None
    complete: bool = False

    @classmethod
    def none(cls) -> Self:
        """Of a report that needs none."""
        return cls(range(0), 0)

    @property
    def is_awaited(self) -> bool:
        """Whether the bins of its hours are worth looking at."""
        return bool(self.hours) and self.found is None

    def begin(self) -> TargetScorecards:
        """What to add the tables to as they go by."""
        return TargetScorecards(self.count)


_OF_CLOSED_HOURS = ("judged_until", "hour", "window", "top", "bounds")


@dataclass(frozen=True, slots=True)
class TargetReport:
    """Reads the bins of scores and of the probabilities that were served."""

    settings: Settings
    bins: BinsStore

    def window(self, closed: int) -> RawWindow:
        """The window that ends with the hours below `closed`, which are closed."""
        hours = range(closed - self.settings.window_hours, closed)
        return RawWindow(hours, self.settings.top_campaigns)

    def of(self, target: str, window: RawWindow) -> dict[str, Any]:
        """Quality of the window and of its newest hour, and the top campaigns."""
        found = window.found if window.complete else None
        return (found or self.scores(target, window)).report(window.hours.stop)

    def scores(
        self, target: str, window: RawWindow, shards: range = range(SHARDS)
    ) -> TargetScorecards:
        """The same of some shards; `window` may have found what the bins of their scores tell."""
        first, closed = window.hours.start, window.hours.stop
        blocks = partial(self.bins.window_blocks, target, shards=shards)
        found = window.found or window.begin()
        for table in () if window.found else blocks(first, closed):
            found.add(table)
        for table in blocks(closed - 1, closed):
            found.hour_raw.add(table.without_versions())
        for table in blocks(closed - 1, closed, calibrated=True):
            found.hour_calibrated.add(table)
        for table in blocks(first, closed, calibrated=True):
            found.calibrated.add(table)
            found.top.add_calibrated(table)
        give_heap_back()
        return found


def carried_over(before: Mapping[str, Any], closed: int) -> dict[str, Any] | None:
    """The same as an earlier report has it, if that is of the same hours."""
    if before.get("judged_until") != closed * SECONDS_PER_HOUR:
        return None
    more = {name: before[name] for name in ("money", "fields") if name in before}
    # A report of before there were bounds has none.
    return {name: before.get(name) for name in _OF_CLOSED_HOURS} | more


_SUMS: Final = (
    *("cost", "value", "impressions", "outcomes"),
    *("earned", "expected_raw", "expected"),
    *("predicted_value_raw", "predicted_value"),
)
"""Of an hour: the first four as the report shows them, then sums of bid x outcome, bid x score and
bid x calibrated probability, and of value per outcome x score and x calibrated probability."""
_TYPICAL: Final = 10.0
"""A campaign's value per outcome is drawn towards the target's by what so many outcomes weigh:
those of an hour are few, and without any nobody knows what one is worth."""


@dataclass(frozen=True, slots=True)
class MoneyReport:
    """Reads the breakdowns of money and bids; `history` are the manifests of the versions kept,
    newest first."""

    bins: BinsStore
    cache: AtlasCache
    history: Sequence[Mapping[str, Any]]
    window_hours: int

    def of(self, target: str, closed: int, before: Mapping[str, Any]) -> dict[str, Any]:
        """`money` of a target's report; nothing where no money was sent within the window.

        `hour` is the newest closed hour and `window` all of the window that were evaluated, each
        with the sums cost, value, impressions and outcomes, and, None where undefined:

            rpm       cost of a thousand impressions
            roi       value / cost
            ropr      sum of bid x outcome / sum of bid x calibrated probability
            ropr_raw  the same of the scores
            copc_value      value / sum of value per outcome x calibrated probability
            copc_value_raw  the same of the scores

        What an outcome is worth is that of its campaign in the hour, value / outcomes, drawn
        towards that of the target. `hours` are the sums, `_SUMS`, by hour.
        """
        first = closed - self.window_hours
        hours = (before.get("money") or {}).get("hours", {})
        # A report of before there were all of these sums has shorter rows.
        known = {int(h): row for h, row in hours.items() if len(row) == len(_SUMS)}
        until = int(before.get("judged_until") or 0) // SECONDS_PER_HOUR
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
        bids = list(self.bins.breakdown(target, "bid", hour, hour + 1))
        paid = list(self.bins.breakdown(target, "money", hour, hour + 1))
        if not any(map(len, (*bids, *paid))):
            return None
        served = self.cache.serving(hour, self.history)
        if served is None:
            return None
        atlas = served.atlases.get(target, Atlas.empty())
        cost, _, value = _totals(paid)
        tables = list(self.bins.shards_of_hour(target, hour))
        impressions, _, outcomes = _totals(tables)
        _, expected_raw, earned = _totals(bids)
        _, expected, _ = _totals(map(atlas.calibrated, bids))
        # A row each: its one cell is that of score 0.
        own = {
            name: worth
            for table in paid
            for name, worth in zip(table.campaigns, from_fixed(table.positives), strict=True)
        }
        predicted = _predicted_values(tables, own, _over(value, outcomes) or 0.0, atlas)
        return [
            *(cost, value, impressions, outcomes, earned, expected_raw, expected),
            *predicted.tolist(),
        ]


def _totals(tables: Iterable[BinsTable]) -> list[float]:
    """Weights, weighted scores and positives of all tables."""
    found = np.zeros(3)
    for table in tables:
        found += [*map(grand_total, (table.counts, table.score_sums, table.positives))]
    return [float(total) for total in found]


def _predicted_values(
    tables: Iterable[BinsTable], own: Mapping[str, float], typical: float, atlas: Atlas
) -> Floats:
    """What the outcomes would be worth that scores, and calibrated probabilities, predict, (2,).

    own : the value of each campaign that has any.
    typical : that of an outcome of the target.
    """
    found = np.zeros(2)
    for table in tables:
        scores, rates, counts, rows = table.samples()
        names = table.campaigns
        values = np.array([own.get(name, 0.0) for name in names])
        outcomes = np.bincount(rows, rates * counts, len(names))
        worth = (values + _TYPICAL * typical) / (outcomes + _TYPICAL)
        calibrated = atlas.look_up(atlas.rows(names)[rows], scores)
        found += [(worth[rows] * counts) @ each for each in (scores, calibrated)]
    return found


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
        "copc_value": _over(named["value"], named["predicted_value"]),
        "copc_value_raw": _over(named["value"], named["predicted_value_raw"]),
    }


def _over(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def new_pushes(target: str, before: Mapping[str, Any], report: Mapping[str, Any]) -> list[int]:
    """The hours from which on another model scores, as the report of a target has them, that the
    one before did not know; they are logged."""
    known = before.get("method", {}).get("pushes", ())
    found = sorted(set(report["method"].get("pushes", ())).difference(known))
    for hour in found:
        begins = datetime.fromtimestamp(hour * SECONDS_PER_HOUR, UTC).isoformat()
        _log.warning("%s: another model scores since the hour of %s", target, begins)
    return found
