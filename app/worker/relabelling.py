"""Relabelling: what young clicks of a delayed target count as, with all that is known by a moment.

From the click log to the history that a refit learns from, and the report's numbers of it: where
labels came from, and by click day what was expected and, once mature, observed.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.click_log.clicks import LoggedClicks, LoggedConversions
from app.click_log.log import ClickReader
from app.click_log.rows import CLICK_ID, stacked
from app.settings import SECONDS_PER_DAY, SECONDS_PER_HOUR, Settings
from app.storage.blocks import Block
from app.storage.statistics.breakdowns import DeclaredFields, UnitDays
from app.worker.model_cache import CachedModel
from app.worker.monitoring import TopCampaigns, scorecard_of
from calibrators import Atlas, BinsTable
from calibrators.arms import BUCKETS
from calibrators.bins.codecs import to_fixed
from calibrators.bins.table import History, HourTables
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.peers import NotDivided
from calibrators.samples import Floats, Integers
from evaluation.backtest.click_history import ClickWindows, LabelSource, label_rule
from pccem import (
    Attribution,
    Categorical,
    Clicks,
    Column,
    Features,
    LabelRules,
    PostClickModel,
    conversions_due,
    label,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class LabelInputs:
    """Probabilities of a conversion, (n,), where they come from, and how they become labels."""

    source: LabelSource
    probabilities: NDArray[np.float64]
    rules: LabelRules


def label_inputs(cached: CachedModel, clicks: Clicks, settings: Settings) -> LabelInputs:
    """The best that there is for these clicks: a model that cannot score them is none."""
    scored = _scored(cached, clicks, settings.training_threads)
    wanted = LabelRules(settings.labels, settings.drift_correction, cached.post_click)
    source, rules = label_rule(scored is not None, cached.delays, wanted)
    return LabelInputs(source, clicks.scores if scored is None else scored, rules)


def score(model: PostClickModel, clicks: Clicks, num_threads: int = 0) -> NDArray[np.float64]:
    """The model's probabilities, (n,); a column that no click brought is missing in all of them,
    one that came up after the training is left out. FeatureMismatch if one has changed its kind."""
    features, kinds = clicks.model_features(), model.feature_kinds
    columns: dict[str, Column] = {
        name: features.columns.get(name, _missing(kind, len(clicks)))
        for name, kind in kinds.items()
    }
    return model.score(Features(columns, len(clicks)), num_threads)


def _scored(cached: CachedModel, clicks: Clicks, num_threads: int) -> NDArray[np.float64] | None:
    if cached.model is None:
        return None
    try:
        return score(cached.model, clicks, num_threads)
    except ValueError as error:
        _log.error("model %s cannot score the clicks: %s", cached.version, error)
        return None


def _missing(kind: str, n: int) -> Column:
    if kind == "numeric":
        return np.full(n, np.nan)
    return Categorical(np.full(n, -1, np.int32), ())


@dataclass(frozen=True, slots=True, eq=False)
class ScoredClicks:
    """Clicks of a span, what is known of them, and their probabilities of a conversion."""

    clicks: LoggedClicks
    attribution: Attribution
    source: LabelInputs

    @classmethod
    def read(
        cls,
        log: ClickReader,
        cached: CachedModel,
        target: str,
        as_of: float,
        settings: Settings,
        span: "Span",
    ) -> Self:
        """Out of the click log, as of a moment."""
        window = settings.attribution_seconds(target)
        clicks, known = log.known(target, *span, window=window, as_of=as_of)
        return cls(clicks, known, label_inputs(cached, clicks.clicks, settings))

    def packed(self, target: str) -> NDArray[np.uint8]:
        """What labels need of them, as bytes."""
        known, p = self.attribution, self.source.probabilities
        table = self.clicks.table(target, delay=known.delay, age=known.age, p=p)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return np.frombuffer(stream.getvalue(), np.uint8)

    def joined(self, target: str, parts: Iterable[NDArray[np.uint8]]) -> "ScoredClicks":
        """The clicks of the whole span, `packed` in parts. What became of conversions that count
        for none of them is not known. Raises `NotDivided` where a click may stand in two parts."""
        table = stacked([pa.ipc.open_stream(pa.py_buffer(part)).read_all() for part in parts])
        hashes = np.sort(table[CLICK_ID].to_numpy())
        if (hashes[1:] == hashes[:-1]).any():
            raise NotDivided("a click stands in several hours")
        delay, age, p = (table[name].to_numpy() for name in ("delay", "age", "p"))
        none = LoggedConversions.of([])
        clicks = replace(LoggedClicks.of(table, target, none, len(table)), click_ids=none.click_ids)
        window = self.attribution.window
        known = Attribution(~np.isnan(delay), delay, age, age >= window, window, 0, 0, 0, 0)
        return ScoredClicks(clicks, known, replace(self.source, probabilities=p))


DAYS_SHOWN = 7
"""Days whose expected and observed conversions are shown."""

Span = tuple[float, float]
"""Clicks of [first, behind), epoch seconds."""
ReadSpan = Callable[[Span], ScoredClicks]
"""Reads a span as of a moment."""
ReadTogether = Callable[[str, Span], ScoredClicks | None]
"""Reads a span with others, by the model of a version; None where no others come."""
DayRecord = Mapping[str, Any]


def labelled_days(
    clicked_at: NDArray[np.float64], labels: NDArray[np.float64], span: Span, as_of: float
) -> Iterator[DayRecord]:
    """One record for each day (UTC) of which the span holds clicks."""
    for first, behind in _days(span):
        chosen = (clicked_at >= first) & (clicked_at < behind)
        if chosen.any():
            yield {
                "first": first,
                "behind": behind,
                "as_of": as_of,
                "clicks": int(np.count_nonzero(chosen)),
                "expected": float(labels[chosen].sum()),
            }


def merged_days(
    before: Iterable[DayRecord], new: Iterable[DayRecord], since: float
) -> list[DayRecord]:
    """The records of the days that end after a moment, oldest first: of each day the one with most
    of the day, and of such the first that was used."""
    days: dict[int, DayRecord] = {}
    for record in (*before, *new):
        held = days.setdefault(_day(record["first"]), record)
        if _seconds(record) > _seconds(held):
            days[_day(record["first"])] = record
    return [record for _, record in sorted(days.items()) if record["behind"] > since]


def observed_days(
    records: Iterable[DayRecord],
    clicked_at: NDArray[np.float64],
    converted: NDArray[np.bool_],
    span: Span,
    weight: float = 1.0,
) -> list[DayRecord]:
    """The records inside a span of mature clicks, with what was observed of theirs in the end.

    Each click given stands for `weight` of them.
    """
    found: list[DayRecord] = []
    for record in records:
        if span[0] <= record["first"] and record["behind"] <= span[1]:
            chosen = (clicked_at >= record["first"]) & (clicked_at < record["behind"])
            observed = weight * float(np.count_nonzero(converted[chosen]))
            found.append({**record, "observed": observed})
    return found


def _days(span: Span) -> Iterator[Span]:
    first, behind = span
    for day in range(_day(first), _day(behind) + 1):
        clipped = max(first, day * SECONDS_PER_DAY), min(behind, (day + 1) * SECONDS_PER_DAY)
        if clipped[0] < clipped[1]:
            yield clipped


def _day(moment: float) -> int:
    return floor(moment / SECONDS_PER_DAY)


def _seconds(record: DayRecord) -> float:
    return float(record["behind"] - record["first"])


Report = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class RelabelledClicks:
    """Clicks of a span whose post-click window is over, and what each counts, (n,)."""

    span: Span
    clicks: LoggedClicks
    attribution: Attribution
    cached: CachedModel
    source: LabelInputs
    labels: Floats

    @property
    def raw(self) -> BinsTable:
        """All of them by their scores: what a refit learns from."""
        return self._table(self.clicks.clicks.scores, np.ones(len(self.labels), np.bool_))

    def by_hour(self, newest: int, fields: Sequence[str] = ()) -> HourTables:
        """The same by hour, counted back from the end of the span: its last hour is `newest`.

        Campaigns are joined to their values of these fields, as `BinRows.of_table` takes them.
        """
        clicks, hours = self.clicks.clicks, self._hours(newest)
        keys = FieldColumn(clicks.campaigns, clicks.rows.astype(np.int64))
        for field in fields:
            missing = FieldColumn.missing(len(hours))
            keys = keys.beside(self.clicks.fields.get(field, missing))
        scores = clicks.scores
        return {int(hour): self._table(scores, hours == hour, keys) for hour in np.unique(hours)}

    def fields_by_hour(
        self, newest: int, declared: DeclaredFields, in_force: Atlas
    ) -> dict[int, FieldTables]:
        """The same by field and hour; the probabilities are those of the maps in force."""
        clicks = self.clicks.clicks
        rows = clicks.rows.astype(np.int64)
        ones, said, hours = np.ones(len(rows)), self.clicks.fields, self._hours(newest)
        predicted = in_force.by_maps(clicks.campaigns, rows, clicks.scores, said)
        block = Block(clicks.campaigns, rows, clicks.scores, ones, self.labels, fields=said)
        return {
            int(hour): declared.tables(block.chosen(hours == hour), predicted[hours == hour])
            for hour in np.unique(hours)
        }

    def _hours(self, newest: int) -> Integers:
        since = (self.clicks.clicks.clicked_at - self.span[1]) / SECONDS_PER_HOUR
        hours: Integers = newest + 1 + np.floor(since).astype(np.int64)
        return hours

    def report(self, settings: Settings) -> Report:
        """Quality of raw scores and of the probabilities that were in force, against the labels."""
        newest = self.clicks.clicks.clicked_at >= self.span[1] - SECONDS_PER_HOUR
        raw, calibrated = self.raw, self._calibrated(np.ones(len(newest), np.bool_))
        of_hour = self._table(self.clicks.clicks.scores, newest), self._calibrated(newest)
        top = TopCampaigns(settings.top_campaigns)
        top.add(raw)
        top.add_calibrated(calibrated)
        return {
            "hour": _quality(*of_hour),
            "window": _quality(raw, calibrated),
            "top": top.entries,
            "labels": self._labels(),
        }

    def _labels(self) -> Mapping[str, Any]:
        """What was seen, and what was expected in the end and by now."""
        seen = int(np.count_nonzero(self.attribution.converted))
        due = self._due()
        return {
            "clicks": len(self.labels),
            "seen": seen,
            "expected": float(self.labels.sum()),
            "due": due,
            "ratio": seen / due if due else None,
            "mode": self.source.rules.mode,
        }

    def _due(self) -> float | None:
        """Conversions that the uncorrected probabilities let expect by now."""
        delays = self.cached.delays
        if delays is None:
            return None
        clicks, source = self.clicks.clicks, self.source
        about = clicks.rows, clicks.campaigns, source.rules, clicks.clicked_at
        return conversions_due(source.probabilities, self.attribution, delays, *about)

    def _calibrated(self, chosen: NDArray[np.bool_]) -> BinsTable:
        """Those of which it is known what served them."""
        probabilities = self.clicks.probabilities
        return self._table(probabilities, chosen & ~np.isnan(probabilities))

    def _table(
        self, values: Floats, chosen: NDArray[np.bool_], keys: FieldColumn | None = None
    ) -> BinsTable:
        clicks = self.clicks.clicks
        names, codes = keys or FieldColumn(clicks.campaigns, clicks.rows.astype(np.int64))
        counts = np.ones(np.count_nonzero(chosen))
        return BinsTable.from_columns(
            names, codes[chosen], values[chosen], counts, self.labels[chosen]
        )


def _quality(raw: BinsTable, calibrated: BinsTable) -> Report:
    return {"raw": scorecard_of([raw]), "calibrated": scorecard_of([calibrated], floors=True)}


def spans(settings: Settings, as_of: float, hours: int) -> list[Span]:
    """What `ClickWindows.labelled_at_once` says, newest first."""
    windows = ClickWindows(settings.window_hours, settings.post_click_seconds)
    return windows.labelled_at_once(as_of, hours)[::-1]


def last_hour(span: Span, end: float) -> int:
    """The hour since 1970 that the last of a span counts as, where the newest span has this end."""
    return ceil(end / SECONDS_PER_HOUR) - 1 - round((end - span[1]) / SECONDS_PER_HOUR)


@dataclass(frozen=True, slots=True, eq=False)
class KnownClicks:
    """The clicks of a delayed target as of a moment, and the model that they are labelled by."""

    log: ClickReader
    cached: CachedModel | None
    target: str
    as_of: float
    settings: Settings

    def relabelled(
        self, span: Span | None = None, read: "ReadTogether | None" = None
    ) -> RelabelledClicks | None:
        """Those of a span, of the newest window unless said; None while labels have no source.
        They are `read` by several workers where these come.

        None, too, without clicks: an hour of silence, or a folder that is not mounted, must not put
        the identity in the place of the maps in force.
        """
        cached = self.cached
        if cached is None or (cached.model is None and cached.delays is None):
            return None
        chosen = span or spans(self.settings, self.as_of, self.settings.window_hours)[0]
        found = read and read(cached.version, chosen)
        if found is None:
            about = self.target, self.as_of, self.settings
            found = ScoredClicks.read(self.log, cached, *about, chosen)
        clicks, known, source = found.clicks.clicks, found.attribution, found.source
        if source.source == "none" or not len(clicks):
            return None
        of_clicks = clicks.rows, clicks.campaigns, source.rules, clicks.clicked_at
        labels = label(source.probabilities, known, cached.delays, *of_clicks)
        return RelabelledClicks(chosen, found.clicks, known, cached, source, labels)


@dataclass(frozen=True, slots=True, eq=False)
class UnitConversions(KnownClicks):
    """Counts what the clicks of each bucket of units brought, day by day of the click.

    A day is counted anew, never added to, so each conversion counts once however often it is. At
    each refit these are counted: the day that goes on, and of those that may still get conversions
    the one that was counted longest ago; first those that were counted before they were over.
    """

    days: UnitDays

    def count(self, recent: LoggedClicks | None) -> None:
        """Nothing as long as no click says its unit: none of the `recent`, if these are known."""
        counted = self.days.counted(self.target)
        says_units = recent is None or bool((recent.buckets >= 0).any())
        if not (says_units or counted):
            return
        behind = self.as_of - self.settings.post_click_seconds
        today = _day(behind)
        if not (self._counted(today, behind, counted) or counted):
            return
        first = _day(behind - self._window) - 1
        open_days = (day for day in range(first, today) if not self._is_final(day, counted))
        oldest = min(open_days, key=lambda day: self._order(day, counted), default=None)
        if oldest is not None:
            self._counted(oldest, behind, counted)

    def _is_final(self, day: int, counted: Mapping[int, int]) -> bool:
        return counted.get(day, 0) * SECONDS_PER_HOUR >= (day + 1) * SECONDS_PER_DAY + self._window

    def _order(self, day: int, counted: Mapping[int, int]) -> tuple[bool, int]:
        until = counted.get(day, 0)
        over = (day + 1) * SECONDS_PER_DAY + self.settings.post_click_seconds
        return until * SECONDS_PER_HOUR >= over, until

    def _counted(self, day: int, behind: float, counted: Mapping[int, int]) -> bool:
        """Whether any of the day's clicks says its unit."""
        span = (day * SECONDS_PER_DAY, min((day + 1) * SECONDS_PER_DAY, behind))
        clicks, converted, labels = self._clicks(span)
        said, until = clicks.buckets >= 0, floor(self.as_of / SECONDS_PER_HOUR)
        # Whoever looks back must not put what was known then in the place of what is known now.
        if (said.any() or counted) and until >= counted.get(day, 0):
            values = self.log.values(self.target, clicks, self.as_of, self._window)
            columns = _of_clicks(converted, labels, np.minimum(values, _MOST))
            buckets = clicks.buckets[said]
            sums = [np.bincount(buckets, one[said], minlength=BUCKETS) for one in columns]
            self.days.put(self.target, day, until, to_fixed(np.minimum(sums, _MOST)))
        return bool(said.any())

    def _clicks(self, span: Span) -> tuple[LoggedClicks, NDArray[np.bool_], Floats]:
        """Clicks, whether each has converted, and what it counts: the same while nobody knows what
        is still to come."""
        found = self.relabelled(span)
        if found is not None:
            return found.clicks, found.attribution.converted, found.labels
        clicks, known = self.log.known(self.target, *span, self.as_of, self._window)
        return clicks, known.converted, known.converted.astype(np.float64)

    @property
    def _window(self) -> float:
        return self.settings.attribution_seconds(self.target)


_MOST = 9e9
"""What a sum in fixed point holds, and nobody pays."""


def _of_clicks(converted: NDArray[np.bool_], labels: Floats, values: Floats) -> list[Floats]:
    """OF_CLICKS of each click, (n,); what is expected is worth what others are on average."""
    arrived = converted.astype(np.float64)
    expected = np.maximum(labels - arrived, 0.0)
    average = values.sum() / arrived.sum() if converted.any() else 0.0
    return [np.ones(len(values)), arrived + expected, arrived, values + average * expected]


@dataclass(frozen=True, slots=True, eq=False)
class LabelHistory(KnownClicks):
    """What clicks count as with everything known as of a moment, hours before it.

    Hours are counted back from the end of the newest click's post-click window, so each is whole
    whatever the post-click window is.
    """

    in_force: Atlas | None = None
    read: ReadTogether | None = None

    def of(self, hours: int) -> tuple[RelabelledClicks, History] | None:
        """The newest window, and so many hours by hour; None where `relabelled` gives None for it.

        Clicks older than a window have their own correction for drift.
        """
        newest, *older = spans(self.settings, self.as_of, max(hours, self.settings.window_hours))
        declared = DeclaredFields.of(self.settings)
        tables: dict[int, BinsTable] = {}
        fields: dict[int, FieldTables] = {}
        for span in (*reversed(older), newest):
            found = self.relabelled(span, self.read)
            if found is None:
                continue
            end = last_hour(span, newest[1])
            tables |= found.by_hour(end)
            if declared.names:
                fields |= found.fields_by_hour(end, declared, self.in_force or Atlas.empty())
        if found is None:
            return None
        nothing = FieldTables.empty(declared.names, declared.pairs)
        by_field = (lambda hour: fields.get(hour, nothing)) if declared.names else None
        return found, History(float(last_hour(newest, newest[1]) + 1), [tables], by_field)
