"""The hourly backtest: what a calibrator would have served, hour by hour, on a log."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from calibrators import Atlas, BinsTable, CalibrationMap, Calibrator, Sufficiency
from calibrators.bins.table import History
from calibrators.fields.columns import chosen
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.guard import guard
from calibrators.methods.refit import Method, PerCampaign, ScaleOfScores
from calibrators.model_versions import refit_by_version
from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import SECONDS_PER_HOUR, EventTable, scorecards

RAW = "raw"
"""Name under which the scores themselves are evaluated."""

Progress = Callable[[int, int], None]
Scored = Callable[[Integers, Mapping[str, Floats]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Backtest:
    """What an hourly backtest gives.

    rows : (k,) impressions evaluated, as indices into the table, hour after hour.
    probabilities : (k,) for each calibrator, and the scores as "raw".
    scorecards : `scorecard` of each, all evaluated hours pooled.
    """

    rows: Integers
    probabilities: Mapping[str, Floats]
    scorecards: Mapping[str, Mapping[str, float]]


def backtest(
    table: EventTable,
    calibrators: Mapping[str, Calibrator | Method],
    *,
    window_hours: int = 24,
    sufficiency: Sufficiency | None = None,
    raw_samples: bool = False,
    guarded: bool = False,
    pairs: Sequence[str] = (),
    progress: Progress | None = None,
    scored: Scored | None = None,
) -> Backtest:
    """Fit on the hours [t - window, t), evaluate on hour t, for every t from the first + window.

    The refit is the service's own, `calibrators.methods.refit`: bins of the window, a map for each
    campaign that has enough, the target's map for the others. All evaluated hours are pooled before
    they are scored, because one campaign's hour holds a few positives at most.

    table : the log; rows that stand for several impressions are evaluated by the probability of
        their common score. Versions of the model (`EventTable.of_versions`) get maps of their own.
    calibrators : name to calibrator, or to a method, such as the pooled one, which has a window and
        rules of its own and carries its memory from hour to hour; the name "raw" is taken.
    window_hours : hours to fit on, at least 1; a method looks back as far as it needs, but nothing
        is evaluated before this many hours are over.
    sufficiency : what a campaign needs for a map of its own; the service's default unless given.
    raw_samples : fit each map on the window's raw samples instead of bins, and without a prior, as
        the paper does; the levels below a campaign's own map stay.
    guarded : put the guard between refit and serving, as the service does unless told otherwise:
        maps are then refitted from the log's second hour on, because each refit is compared with
        what the one before has brought into force.
    pairs : pairs of the log's fields that act together, such as "device*placement". Of a log with
        fields, sums by value are kept as the service keeps them, from the first hour on, and
        methods that know effects of fields serve with them.
    progress : called with (hours done, hours in all) after each evaluated hour.
    scored : called with the rows of each evaluated hour, (k,), and by name the probabilities that
        they were given, (k,), the scores as "raw".

    Raises ValueError when the log is no longer than the window, a calibrator is called "raw", or
    raw samples are asked for with a method or with the guard, which work on bins.

    Source: Deng et al. (paper 004), section 5.1. Pooling is ours: the mean of hourly GC-N is
    infinite or noise. Since hour t's outcomes train hour t + 1, a sliding calibrator's pooled GC-N
    may fall below that of the true probabilities.

    >>> from calibrators import SmoothedIsotonic
    >>> from evaluation.simulation.ad_platform import Platform
    >>> log = Platform(campaigns=2, impressions_per_hour=5_000, ctr=0.1, seed=1).hours(0, 8).events
    >>> found = backtest(log, {"sir": SmoothedIsotonic()}, window_hours=6)
    >>> found.scorecards["sir"]["log_loss"] < found.scorecards["raw"]["log_loss"]
    True
    """
    _check(window_hours, calibrators, raw_samples, guarded)
    hours = _Hours(table)
    evaluated = hours.evaluated(window_hours)
    enough = sufficiency or Sufficiency()
    if raw_samples:
        maps = _raw_maps(_RawPast(table, hours, enough), calibrators, evaluated, window_hours)
    else:
        refits = {
            name: Refits(method_of(each, enough, window_hours), guarded, pairs)
            for name, each in calibrators.items()
        }
        known = guarded or table.fields is not None
        maps = _refitted(table, hours, refits, hours.distinct()[1:] if known else evaluated)
    served: dict[str, list[Floats]] = {name: [] for name in calibrators}
    for hour, by_name in maps:
        if hour < evaluated[0]:
            continue
        rows = hours.rows(hour, hour + 1)
        found = {
            name: _probabilities(served_by, table, rows) for name, served_by in by_name.items()
        }
        for name, probabilities in found.items():
            served[name].append(probabilities)
        if scored is not None:
            scored(rows, {RAW: table.scores[rows], **found})
        if progress is not None:
            progress(evaluated.index(hour) + 1, len(evaluated))
    rows = np.concatenate([hours.rows(hour, hour + 1) for hour in evaluated])
    return _scored(table, rows, served)


def _check(
    window_hours: int,
    calibrators: Mapping[str, Calibrator | Method],
    raw_samples: bool,
    guarded: bool,
) -> None:
    if window_hours < 1:
        raise ValueError(f"window_hours = {window_hours}: must be at least 1")
    if RAW in calibrators:
        raise ValueError(f'calibrators: the name "{RAW}" stands for the scores themselves')
    methods = [name for name, each in calibrators.items() if not isinstance(each, Calibrator)]
    if raw_samples and methods:
        raise ValueError(f"calibrators: {methods[0]!r} learns from bins, not from raw samples")
    if raw_samples and guarded:
        raise ValueError("guarded: the guard works on bins, not by raw samples")


def method_of(each: Calibrator | Method, sufficiency: Sufficiency, window_hours: int) -> Method:
    """The method itself, or the calibrator on a window, campaign by campaign."""
    return PerCampaign(each, sufficiency, window_hours) if isinstance(each, Calibrator) else each


def _probabilities(served: "Served", table: EventTable, rows: Integers) -> Floats:
    """By the maps of each moment, with the effects of fields in them, as the service answers."""
    found, times = np.empty(len(rows)), table.times[rows]
    for moment, atlas in served:
        since = times >= moment
        found[since] = _served(atlas, table, rows[since])
    return found


def _served(atlas: Atlas, table: EventTable, rows: Integers) -> Floats:
    events = table.select(rows)
    campaigns = [events.campaigns[row] for row in events.rows.tolist()]
    return atlas.served(campaigns, events.scores, events.fields or {})


def _scored(table: EventTable, rows: Integers, served: Mapping[str, Sequence[Floats]]) -> Backtest:
    probabilities = {RAW: table.scores[rows]}
    probabilities.update((name, np.concatenate(parts)) for name, parts in served.items())
    events = table.select(rows).without_versions()
    return Backtest(rows, probabilities, scorecards(events, probabilities))


class _Hours:
    """The log's rows by hour: `order` sorts them, `hours` are theirs, ascending."""

    def __init__(self, table: EventTable) -> None:
        self.order = np.argsort(table.hours, kind="stable")
        self.hours = table.hours[self.order]

    def distinct(self) -> list[int]:
        return list(map(int, np.unique(self.hours)))

    def rows(self, first: int, behind: int) -> Integers:
        """Rows of the hours [first, behind)."""
        start, end = np.searchsorted(self.hours, (first, behind))
        return self.order[start:end]

    def evaluated(self, window_hours: int) -> list[int]:
        """Hours with impressions that have a whole window before them."""
        present = self.distinct()
        evaluated = [hour for hour in present if hour >= present[0] + window_hours]
        if not evaluated:
            span = present[-1] - present[0] + 1 if present else 0
            raise ValueError(
                f"window_hours = {window_hours}: the log spans {span} h, none is left to evaluate"
            )
        return evaluated


Served = Sequence[tuple[float, Atlas]]
"""Maps, each with the moment in epoch seconds from which on it serves, ascending."""

Maps = Iterator[tuple[int, Mapping[str, Served]]]
"""Hour by hour, what serves it by name."""

_LOOKS = 12
"""How often an hour is looked at while it runs, for whether another model scores."""

_FIELD_HOURS = 720
"""Hours of which sums by field are kept: no method looks further back."""


class _InForce(NamedTuple):
    """Maps, and as of when they were fitted, in hours since 1970."""

    atlas: Atlas
    as_of: float


def _on_scale(before: _InForce | None, scale: ScaleOfScores | None) -> Atlas | None:
    if before is None or scale is None:
        return None if before is None else before.atlas
    return scale.on_scale(before.atlas, before.as_of)


@dataclass(slots=True)
class Refits:
    """One method refitted as of one moment after the other, as the service's worker does it: with
    what it remembers of its last refit, and with the guard, if any, before what goes out.

    Of a log with fields, `serve` takes in each hour that what is in force has served.
    """

    method: Method
    guarded: bool = False
    pairs: Sequence[str] = ()
    scale: ScaleOfScores | None = None
    _memory: object = None
    _in_force: "_InForce | None" = None
    _compared: "_InForce | None" = None
    _tables: dict[int, FieldTables] = field(default_factory=dict)

    def refit(self, history: History) -> Atlas:
        """What serves from the history's moment on."""
        fitted = refit_by_version(self.method, history, memory=self._memory, trial=self.guarded)
        self._memory, self.scale, atlas = fitted.memory, fitted.scale, fitted.atlas
        before = self._in_force
        if before is None or before.as_of <= history.newest:
            self._compared = before
        if fitted.trial is not None:
            newest = history.windows(history.newest, history.newest + 1)
            fields = None if history.fields is None else history.fields(history.newest)
            compared = _on_scale(self._compared, fitted.scale)
            atlas = guard(
                atlas, fitted.trial, compared, newest, fields=fields, set_aside=fitted.set_aside
            ).atlas
        self._in_force = _InForce(atlas, history.as_of)
        return atlas

    def with_fields(self, history: History) -> History:
        """The history with the sums by field of the hours that were served."""
        if not self._tables:
            return history
        names = next(iter(self._tables.values())).fields
        nothing = FieldTables.empty(names, self.pairs)
        return replace(history, fields=lambda hour: self._tables.get(hour, nothing))

    def serve(self, hour: int, table: EventTable, rows: Integers) -> None:
        """Take in the impressions of an hour, (k,): by field, with what the maps in force give
        without effects."""
        assert table.fields is not None
        atlas = Atlas.empty() if self._in_force is None else self._in_force.atlas
        served = _served(atlas.with_effects(None), table, rows)
        events = (served, table.counts[rows], table.positives[rows])
        served_to = table.select(rows).without_versions()
        campaigns = FieldColumn(served_to.campaigns, served_to.rows.astype(np.int64))
        columns = chosen(table.fields, rows)
        self._tables[hour] = FieldTables.from_events(campaigns, columns, self.pairs, events)
        self._tables.pop(hour - _FIELD_HOURS, None)


@dataclass(frozen=True, slots=True, eq=False)
class _LogHistory(History):
    """Sums over spans of hours are made once for all methods."""

    summed: dict[tuple[range, ...], list[tuple[BinsTable, ...]]] = field(default_factory=dict)

    def sums(self, *spans: range) -> Iterator[tuple[BinsTable, ...]]:
        if spans not in self.summed:
            self.summed[spans] = list(History.sums(self, *spans))
        yield from self.summed[spans]


def _refitted(
    table: EventTable, hours: "_Hours", refits: Mapping[str, Refits], moments: Sequence[int]
) -> Maps:
    """Refits on bins, one table for each hour, as the service keeps them."""
    tables = bins_by_hour(table)
    served_until = min(tables, default=0)
    for moment in moments:
        before = {hour: bins for hour, bins in tables.items() if hour < moment}
        if table.fields is not None:
            for hour in sorted(hour for hour in before if hour >= served_until):
                for each in refits.values():
                    each.serve(hour, table, hours.rows(hour, hour + 1))
            served_until = moment
        history = _LogHistory(moment, [before])
        served = {
            name: [(-np.inf, each.refit(each.with_fields(history)))]
            for name, each in refits.items()
        }
        looking = {name: each for name, each in refits.items() if each.scale is not None}
        for as_of, now in _running(table, hours.rows(moment, moment + 1)) if looking else ():
            running = _LogHistory(as_of, [{**before, moment: now}])
            for name, each in looking.items():
                if each.scale is not None and each.scale.changed(moment, now):
                    again = each.refit(each.with_fields(running))
                    served[name].append((as_of * SECONDS_PER_HOUR, again))
        yield moment, served


def _running(table: EventTable, rows: Integers) -> Iterator[tuple[float, BinsTable]]:
    """Moments within the hour of these rows, in hours, and its bins up to each: as long as there
    are rows before and after it."""
    times = table.times[rows] / SECONDS_PER_HOUR
    hour = np.floor(times[:1]).sum()
    for look in range(1, _LOOKS):
        as_of = float(hour + look / _LOOKS)
        known = rows[times < as_of]
        if 0 < len(known) < len(rows):
            yield as_of, _bins(table, known)


def bins_by_hour(table: EventTable) -> dict[int, BinsTable]:
    """The bins of each hour that has impressions, as the service keeps them."""
    hours = _Hours(table)
    return {hour: _bins(table, hours.rows(hour, hour + 1)) for hour in hours.distinct()}


def _bins(table: EventTable, rows: Integers) -> BinsTable:
    hour = table.select(rows)
    return BinsTable.from_columns(
        table.campaigns, hour.rows.astype(np.int64), hour.scores, hour.counts, hour.positives
    )


def _raw_maps(
    past: "_RawPast", calibrators: Mapping[str, Calibrator | Method], hours: Sequence[int], n: int
) -> Maps:
    for hour in hours:
        rows = past.hours.rows(hour - n, hour)
        yield hour, {name: [(-np.inf, past.fit(rows, each))] for name, each in calibrators.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _RawPast:
    """Fits on the raw samples of each campaign."""

    table: EventTable
    hours: _Hours
    sufficiency: Sufficiency

    def fit(self, rows: Integers, calibrator: Calibrator | Method) -> Atlas:
        """The maps of campaigns and target that have enough."""
        assert isinstance(calibrator, Calibrator)
        ordered = rows[np.argsort(self.table.rows[rows], kind="stable")]
        present, starts = np.unique(self.table.rows[ordered], return_index=True)
        maps = {
            self.table.campaigns[row]: self._map(part, calibrator)
            for row, part in zip(present, np.split(ordered, starts[1:]), strict=False)
            if self._suffices(part)
        }
        target = self._map(rows, calibrator) if self._suffices(rows) else None
        return Atlas.build(maps, target)

    def _map(self, rows: Integers, calibrator: Calibrator) -> CalibrationMap:
        table = self.table
        weights = None if table.weights is None else table.weights[rows]
        return calibrator.fit(table.scores[rows], table.outcomes[rows], weights)

    def _suffices(self, rows: Integers) -> bool:
        samples, positives = self.table.counts[rows].sum(), self.table.positives[rows].sum()
        return self.sufficiency.missing(float(samples), float(positives)) is None
