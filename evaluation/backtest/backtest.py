"""The hourly backtest: what a calibrator would have served, hour by hour, on a log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrators import Atlas, BinsTable, CalibrationMap, Calibrator, Sufficiency, refit
from calibrators.bins.history import History
from calibrators.methods.refit import Method
from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import EventTable
from evaluation.metrics.scorecard import scorecard

RAW = "raw"
"""Name under which the scores themselves are judged."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Backtest:
    """What an hourly backtest found.

    Attributes
    ----------
    rows : (k,) impressions judged, as indices into the table, hour after hour.
    probabilities : (k,) for each calibrator, and the scores as "raw".
    scorecards : `scorecard` of each, all judged hours pooled.
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
    progress: Progress | None = None,
) -> Backtest:
    """Fit on the hours [t - window, t), judge on hour t; for every t from the first hour + window.

    The fit is `calibrators.methods.refit`, the service's own: bins of the window, a map for each
    campaign that has enough, the target's map for the others. All judged hours are pooled before
    they are scored, because one campaign's hour holds a few positives at most.

    Parameters
    ----------
    table : the log; rows that stand for several impressions are judged by the probability of
        their common score.
    calibrators : name to calibrator, or to a method, such as the pooled one, which has a window and
        rules of its own and carries its memory from hour to hour; the name "raw" is taken.
    window_hours : hours to fit on, at least 1; a method looks back as far as it needs, but nothing
        is judged before this many hours are over.
    sufficiency : what a campaign needs for a map of its own; the service's default unless given.
    raw_samples : fit each map on the window's raw samples instead of bins, and without a prior, as
        the paper does; the levels below a campaign's own map stay.
    progress : called with (hours done, hours in all) after each judged hour.

    Raises
    ------
    ValueError
        When the log is no longer than the window, a calibrator is called "raw", or a method is to
        learn from raw samples.

    References
    ----------
    Deng et al. (paper 004), section 5.1. Pooling is ours: the mean of hourly GC-N is infinite or
    noise. Since hour t's outcomes train hour t + 1, a sliding calibrator's pooled GC-N may fall
    below that of the true probabilities.

    Examples
    --------
    >>> from calibrators import SmoothedIsotonic
    >>> from evaluation.simulation.ad_platform import Platform
    >>> log = Platform(campaigns=2, impressions_per_hour=5_000, ctr=0.1, seed=1).hours(0, 8).events
    >>> found = backtest(log, {"sir": SmoothedIsotonic()}, window_hours=6)
    >>> found.scorecards["sir"]["log_loss"] < found.scorecards["raw"]["log_loss"]
    True
    """
    _check(window_hours, calibrators, raw_samples)
    hours = _Hours.of(table)
    judged = hours.judged(window_hours)
    past = _RawPast(table, hours) if raw_samples else _BinsPast.of(table, hours)
    served: dict[str, list[Floats]] = {name: [] for name in calibrators}
    fits = {
        name: each if isinstance(each, Calibrator) else _Learner(each)
        for name, each in calibrators.items()
    }
    for done, hour in enumerate(judged, 1):
        rows = hours.rows(hour, hour + 1)
        fit = past.window(hour - window_hours, hour, sufficiency or Sufficiency())
        for name, fitted in fits.items():
            served[name].append(_probabilities(fit(fitted), table, rows))
        if progress is not None:
            progress(done, len(judged))
    return _scored(table, np.concatenate([hours.rows(hour, hour + 1) for hour in judged]), served)


def _check(
    window_hours: int, calibrators: Mapping[str, Calibrator | Method], raw_samples: bool
) -> None:
    if window_hours < 1:
        raise ValueError(f"window_hours = {window_hours}: must be at least 1")
    if RAW in calibrators:
        raise ValueError(f'calibrators: the name "{RAW}" stands for the scores themselves')
    methods = [name for name, each in calibrators.items() if not isinstance(each, Calibrator)]
    if raw_samples and methods:
        raise ValueError(f"calibrators: {methods[0]!r} learns from bins, not from raw samples")


def _probabilities(atlas: Atlas, table: EventTable, rows: Integers) -> Floats:
    return atlas.look_up(atlas.rows(table.campaigns)[table.rows[rows]], table.scores[rows])


def _scored(table: EventTable, rows: Integers, served: Mapping[str, Sequence[Floats]]) -> Backtest:
    probabilities = {RAW: table.scores[rows]}
    probabilities.update((name, np.concatenate(parts)) for name, parts in served.items())
    judged = table.select(rows)
    cards = {
        name: scorecard(p, judged.outcomes, judged.rows, sample_weight=judged.weights)
        for name, p in probabilities.items()
    }
    return Backtest(rows, probabilities, cards)


@dataclass(frozen=True, slots=True, eq=False)
class _Hours:
    """The log's rows by hour: `order` sorts them, `hours` are theirs, ascending."""

    order: Integers
    hours: Integers

    @classmethod
    def of(cls, table: EventTable) -> "_Hours":
        order = np.argsort(table.hours, kind="stable")
        return cls(order, table.hours[order])

    def distinct(self) -> list[int]:
        return list(map(int, np.unique(self.hours)))

    def rows(self, first: int, behind: int) -> Integers:
        """Rows of the hours [first, behind)."""
        start, end = np.searchsorted(self.hours, (first, behind))
        return self.order[start:end]

    def judged(self, window_hours: int) -> list[int]:
        """Hours with impressions that have a whole window before them."""
        present = self.distinct()
        judged = [hour for hour in present if hour >= present[0] + window_hours]
        if not judged:
            span = present[-1] - present[0] + 1 if present else 0
            raise ValueError(
                f"window_hours = {window_hours}: the log spans {span} h, none is left to judge"
            )
        return judged


@dataclass(slots=True)
class _Learner:
    """A method with what it remembers of its last refit."""

    method: Method
    memory: object = None

    def __call__(self, history: History) -> Atlas:
        fitted = self.method.refit(history, memory=self.memory)
        self.memory = fitted.memory
        return fitted.atlas


Fit = Callable[[Calibrator | _Learner], Atlas]


@dataclass(frozen=True, slots=True, eq=False)
class _BinsPast:
    """Fits on bins, one table for each hour, as the service keeps them."""

    tables: Mapping[int, BinsTable]

    @classmethod
    def of(cls, table: EventTable, hours: _Hours) -> "_BinsPast":
        return cls({h: _bins(table, hours.rows(h, h + 1)) for h in hours.distinct()})

    def window(self, first: int, behind: int, sufficiency: Sufficiency) -> Fit:
        hours = (self.tables[hour] for hour in range(first, behind) if hour in self.tables)
        window = BinsTable.merge(hours)
        before = {hour: bins for hour, bins in self.tables.items() if hour < behind}

        def fit(fitted: Calibrator | _Learner) -> Atlas:
            if isinstance(fitted, _Learner):
                return fitted(History(behind, [before]))
            return refit(window, fitted, sufficiency).atlas

        return fit


def _bins(table: EventTable, rows: Integers) -> BinsTable:
    hour = table.select(rows)
    return BinsTable.from_columns(
        table.campaigns, hour.rows.astype(np.int64), hour.scores, hour.counts, hour.positives
    )


@dataclass(frozen=True, slots=True, eq=False)
class _RawPast:
    """Fits on the raw samples of each campaign."""

    table: EventTable
    hours: _Hours

    def window(self, first: int, behind: int, sufficiency: Sufficiency) -> Fit:
        rows = self.hours.rows(first, behind)
        by_campaign = rows[np.argsort(self.table.rows[rows], kind="stable")]
        present, starts = np.unique(self.table.rows[by_campaign], return_index=True)
        ends = np.append(starts[1:], len(rows))
        parts = {
            self.table.campaigns[row]: by_campaign[start:end]
            for row, start, end in zip(present, starts, ends, strict=False)
        }

        def fit(calibrator: Calibrator | _Learner) -> Atlas:
            assert isinstance(calibrator, Calibrator)
            maps = {
                name: self._map(part, calibrator)
                for name, part in parts.items()
                if self._suffices(part, sufficiency)
            }
            target = self._map(rows, calibrator) if self._suffices(rows, sufficiency) else None
            return Atlas.build(maps, target)

        return fit

    def _map(self, rows: Integers, calibrator: Calibrator) -> CalibrationMap:
        table = self.table
        weights = None if table.weights is None else table.weights[rows]
        return calibrator.fit(table.scores[rows], table.outcomes[rows], weights)

    def _suffices(self, rows: Integers, sufficiency: Sufficiency) -> bool:
        samples, positives = self.table.counts[rows].sum(), self.table.positives[rows].sum()
        return sufficiency.missing(float(samples), float(positives)) is None
