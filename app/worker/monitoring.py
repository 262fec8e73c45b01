"""The numbers of the report: out-of-sample quality of the last hour and of the window, and which
campaigns are off beyond chance.

Each closed hour is binned by the probabilities that served it, from maps fitted before it began.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.experiments import CHALLENGER_OF
from app.storage.keys import SHARDS
from app.worker.atlas_cache import AtlasCache, CachedVersion
from calibrators import Atlas, Bins, BinsTable
from calibrators.evidence import DIRECTIONS, SUMS, PcocEvidence, bound_of
from calibrators.peers import Part, as_array, listed_in
from calibrators.samples import Floats
from evaluation.metrics.cal_n import cal_n_of
from evaluation.metrics.calibration import GC_N, pooled_scores
from evaluation.metrics.gc_n import CampaignErrors, CampaignRuns, GroupCalibration
from evaluation.metrics.predictions import Predictions

Row = Mapping[str, float | None]
_log = logging.getLogger(__name__)

_DRAWS = 20
"""Of the outcomes of each campaign, for the floor of GC-N, which is a mean over campaigns."""
_CELLS_TOGETHER = 1 << 13
"""Tables are joined up to so many cells: numpy is called as often for few as for many."""


class BinnedScorecard:
    """Scorecard of binned probabilities, with Cal-3 and Cal-5 of all campaigns together.

    A cell counts as its mean probability, and what pools the campaigns is taken from their pooled
    bins. Takes in tables of which none has a campaign of another's, so that only one of them needs
    to be in memory at a time.
    """

    def __init__(self, *, floors: bool = False) -> None:
        """With the `floors` of GC-N, which take as long as all else, where they are wanted."""
        self._waiting: list[BinsTable] = []
        self._totals: list[Bins] = []
        self._errors: dict[int, list[CampaignErrors]] = {n: [] for n in GC_N}
        self._floors: dict[int, list[CampaignErrors]] = {n: [] for n in GC_N if floors}

    def add(self, table: BinsTable) -> None:
        """Take in a table."""
        self._waiting.append(table)
        if sum(len(waiting.cells) for waiting in self._waiting) >= _CELLS_TOGETHER:
            self._take_in()

    def _take_in(self) -> None:
        waiting, self._waiting = self._waiting, []
        table = waiting[0] if len(waiting) == 1 else BinsTable.merge(waiting)
        self._totals.append(table.total())
        *columns, rows = table.samples()
        runs = CampaignRuns.of_rows(Predictions.check(*columns), table.campaigns, rows)
        for n, errors in self._errors.items():
            errors.append(runs.cal_n(n))
        for n, found in self._floors.items():
            found.append(_floors(runs, n))

    @property
    def sums(self) -> Part:
        """What the numbers are made of; see `join`."""
        self._finish()
        pooled = Bins.merge(self._totals)
        errors = [CampaignErrors.joined(parts) for parts in self._parts]
        columns = ((each.campaigns, each.values, each.weights) for each in errors)
        return (pooled.cells, pooled.sums, *chain.from_iterable(columns))

    def join(self, sums: Part) -> None:
        """Take in what `sums` gives of tables that a scorecard like this has taken in elsewhere."""
        cells, pooled, *columns = sums
        self._totals.append(Bins.of_sums(cells, pooled))
        for parts, own in zip(self._parts, zip(*[iter(columns)] * 3, strict=True), strict=True):
            parts.append(CampaignErrors(*own))

    @property
    def _parts(self) -> list[list[CampaignErrors]]:
        return [*self._errors.values(), *self._floors.values()]

    def _finish(self) -> None:
        if self._waiting or not self._totals:
            self._take_in()

    def row(self) -> Row:
        """The numbers; what is undefined is None, so that no gauge shows it."""
        self._finish()
        pooled = Predictions.check(*Bins.merge(self._totals).samples())
        row = {
            **pooled_scores(pooled),
            **{f"cal_{n}": cal_n_of(pooled, n, "merge") for n in (3, 5)},
            **{f"gc_{n}": CampaignErrors.joined(parts).mean for n, parts in self._errors.items()},
            **{
                f"gc_{n}_floor": CampaignErrors.joined(parts).mean
                for n, parts in self._floors.items()
            },
        }
        return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _floors(runs: CampaignRuns, n: int) -> CampaignErrors:
    """What GC-N would be made of if the probabilities were the truth."""
    rng = np.random.default_rng(n)
    found = GroupCalibration.of(runs.runs, runs.run_positives, n, rng, draws=_DRAWS)
    kept = np.flatnonzero(~np.isnan(found.floors))
    return CampaignErrors(kept, found.floors[kept], found.samples[kept])


def quality(table: BinsTable, *, floors: bool = False) -> Row:
    """The scorecard of one table."""
    return scorecard_of([table], floors=floors)


def scorecard_of(tables: Iterable[BinsTable], *, floors: bool = False) -> Row:
    """The scorecard of tables, each asked for when the one before is done with."""
    scorecard = BinnedScorecard(floors=floors)
    for table in tables:
        scorecard.add(table)
    return scorecard.row()


def top_campaigns(raw: BinsTable, calibrated: BinsTable, count: int) -> list[dict[str, Any]]:
    """The campaigns with the most samples, with their PCOC before and after calibration."""
    top = TopCampaigns(count)
    top.add(raw)
    top.add_calibrated(calibrated)
    return top.entries


class TopCampaigns:
    """`top_campaigns` of tables that come one after the other, all raw ones first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.entries: list[dict[str, Any]] = []

    def add(self, raw: BinsTable) -> None:
        """Take in a table of scores; none has a campaign of another's."""
        samples, positives = raw.totals()
        order = np.argsort(-samples, kind="stable")[: self._count]
        found = [
            {
                "campaign": raw.campaigns[row],
                "n": float(samples[row]),
                "positives": float(positives[row]),
                "pcoc_raw": _pcoc(raw.bins(raw.campaigns[row])),
                "pcoc_calibrated": None,
            }
            for row in order.tolist()
        ]
        self.join(found)

    def join(self, entries: Iterable[dict[str, Any]]) -> None:
        """Take in the entries of another's tables."""
        # Ties are broken by name, so that the labels of a gauge do not flicker.
        ranked = sorted((*self.entries, *entries), key=lambda one: (-one["n"], one["campaign"]))
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
            in_force = self.cache.serving(hour, self.history, self.settings.versions_kept)
            if in_force is not None:
                yield hour, in_force

    def _bin(self, target: str, name: str, hour: int, in_force: Atlas) -> None:
        served = self.bins.shards_of_hour(target, hour)
        self.bins.write_calibrated(name, hour, map(in_force.calibrated, served))


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


@dataclass(frozen=True, slots=True)
class TargetScorecards:
    """Of a target, as far as tables were taken in, which have no campaign in common: the top
    campaigns, and the quality of scores, and of the probabilities that were served, in the window
    and in its newest hour."""

    top: TopCampaigns
    raw: BinnedScorecard
    calibrated: BinnedScorecard
    hour_raw: BinnedScorecard
    hour_calibrated: BinnedScorecard

    @classmethod
    def nothing(cls, count: int) -> Self:
        """Before any table, for so many top campaigns."""
        floors = (False, True, False, True)
        return cls(TopCampaigns(count), *(BinnedScorecard(floors=each) for each in floors))

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
        return TargetScorecards.nothing(self.count)


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
        return found


def carried_over(before: Mapping[str, Any], closed: int) -> dict[str, Any] | None:
    """The same as an earlier report has it, if that is of the same hours."""
    if before.get("judged_until") != closed * SECONDS_PER_HOUR:
        return None
    more = {name: before[name] for name in ("money", "fields") if name in before}
    # A report of before there were bounds has none.
    return {name: before.get(name) for name in _OF_CLOSED_HOURS} | more


def new_pushes(target: str, before: Mapping[str, Any], report: Mapping[str, Any]) -> list[int]:
    """The hours from which on another model scores, as the report of a target has them, that the
    one before did not know; they are logged."""
    known = before.get("method", {}).get("pushes", ())
    found = sorted(set(report["method"].get("pushes", ())).difference(known))
    for hour in found:
        begins = datetime.fromtimestamp(hour * SECONDS_PER_HOUR, UTC).isoformat()
        _log.warning("%s: another model scores since the hour of %s", target, begins)
    return found
