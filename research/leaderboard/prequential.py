"""Prequential evaluation: hour by hour, methods learn from what came before and are scored on what
follows, on a platform whose truth is known or on a log whose truth is not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import SECONDS_PER_HOUR, EventTable
from research.leaderboard.accumulator import Accumulator
from research.leaderboard.method import LeaderboardMethod, MethodUnavailable, Past, Predictor
from research.leaderboard.results import Results


class TrafficHour(Protocol):
    """Impressions of one hour, and their true probabilities, (n,), where these are known."""

    @property
    def events(self) -> EventTable:
        """The impressions."""

    @property
    def truth(self) -> Floats | None:
        """Their true probabilities, or None."""


class Traffic(Protocol):
    """Impressions hour by hour; hour 0 begins at `start`, epoch seconds, a whole hour."""

    @property
    def start(self) -> float:
        """Epoch seconds at which hour 0 begins."""

    @property
    def names(self) -> tuple[str, ...]:
        """The campaigns of all hours, ascending; rows of every hour point at them."""

    def hour(self, hour: int, /) -> TrafficHour:
        """The impressions of one hour."""


@dataclass(frozen=True, slots=True, eq=False)
class LogHour:
    """Impressions of a log's hour; nobody knows their truth."""

    events: EventTable
    truth: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LogTraffic:
    """A log as traffic: the rows in the order of time, the first one's hour is hour 0.

    >>> log = LogTraffic.of(EventTable.from_columns([7200, 3600], ["a", "b"], [0.1, 0.2], [0, 1]))
    >>> log.hours, log.hour(1).events.scores.tolist()
    (2, [0.1])
    """

    table: EventTable
    bounds: Integers

    @classmethod
    def of(cls, table: EventTable) -> "LogTraffic":
        """The traffic of a log; ValueError when it is empty."""
        if not len(table):
            raise ValueError("table: there are no impressions")
        ordered = table.select(np.argsort(table.times, kind="stable"))
        hours = ordered.hours
        bounds = np.searchsorted(hours, np.arange(hours[0], hours[-1] + 2))
        return cls(ordered, bounds)

    @property
    def start(self) -> float:
        """See `Traffic`."""
        return float(self.table.hours[0]) * SECONDS_PER_HOUR

    @property
    def names(self) -> tuple[str, ...]:
        """See `Traffic`."""
        return self.table.campaigns

    @property
    def hours(self) -> int:
        """How many hours the log spans."""
        return len(self.bounds) - 1

    def hour(self, hour: int, /) -> LogHour:
        """See `Traffic`; empty beyond the log."""
        if not 0 <= hour < self.hours:
            return LogHour(self.table.select(np.empty(0, np.int64)))
        return LogHour(self.table.select(np.arange(self.bounds[hour], self.bounds[hour + 1])))


Progress = Callable[[int, int], None]

_MINUTES_PER_HOUR = 60


def prequential(
    source: Traffic | EventTable,
    methods: Sequence[LeaderboardMethod],
    *,
    first_scored: int,
    scored_hours: int,
    refit_every: int = 1,
    minutes: int = 60,
    seed: int = 0,
    progress: Progress | None = None,
) -> Results:
    """Refit on what came before each moment, score on what follows it.

    source : traffic with known truth, or a log (its first row's hour is hour 0).
    methods : made for this run alone.
    first_scored, scored_hours : the hours scored are [first_scored, first_scored + scored_hours).
    refit_every : refits at every so many steps, at least 1.
    minutes : length of a step, a divisor of 60: 5 refits within the hour too.
    seed : of the platform, for the result.
    progress : called with (hours done, hours in all), those before the first scored one too.

    Returns: Of one seed. A method that cannot be had is in `unavailable`, with the reason.

    Raises ValueError when a parameter breaks its rule, two methods have one name, or nothing is
    left to score.

    >>> from research.leaderboard import METHODS
    >>> from evaluation.simulation.ad_platform import Platform
    >>> made = [METHODS[name]() for name in ("identity", "sir")]
    >>> platform = Platform(campaigns=2, impressions_per_hour=5_000, ctr=0.1, seed=1)
    >>> found = prequential(platform, made, first_scored=6, scored_hours=2)
    >>> found.excess("sir") < found.excess("identity")
    True
    """
    _check(methods, first_scored, scored_hours, refit_every, minutes)
    traffic = LogTraffic.of(source) if isinstance(source, EventTable) else source
    run = _Run.of(traffic, methods, first_scored, first_scored + scored_hours)
    for hour in range(first_scored + scored_hours):
        drawn = traffic.hour(hour)
        if hour < first_scored:
            run.learn(hour, drawn.events)
        else:
            run.score(hour, drawn, _MINUTES_PER_HOUR // minutes, refit_every)
        if progress is not None:
            progress(hour + 1, first_scored + scored_hours)
    return run.results(seed)


def _check(
    methods: Sequence[LeaderboardMethod], first: int, hours: int, refit_every: int, minutes: int
) -> None:
    for name, value, holds, rule in (
        ("first_scored", first, first >= 1, "at least 1"),
        ("scored_hours", hours, hours >= 1, "at least 1"),
        ("refit_every", refit_every, refit_every >= 1, "at least 1"),
        ("minutes", minutes, minutes >= 1 and 60 % minutes == 0, "a divisor of 60"),
    ):
        if not holds:
            raise ValueError(f"{name} = {value}: must be {rule}")
    names = [method.name for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"methods: the name {name!r} is taken")


@dataclass(slots=True)
class _Run:
    """The state of a run; hours count from the traffic's first one."""

    names: tuple[str, ...]
    first_hour: int
    methods: list[LeaderboardMethod]
    past: Past
    accumulator: Accumulator
    predictors: dict[str, Predictor] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    steps_done: int = 0

    @classmethod
    def of(
        cls, traffic: Traffic, methods: Sequence[LeaderboardMethod], first: int, behind: int
    ) -> "_Run":
        start = int(traffic.start // SECONDS_PER_HOUR)
        accumulator = Accumulator(start + first, start + behind)
        return cls(traffic.names, start, list(methods), Past(len(traffic.names)), accumulator)

    def learn(self, hour: int, events: EventTable) -> None:
        """What happened in an hour, or a part of it, is known from now on."""
        self.past.add(self.first_hour + hour, events)

    def score(self, hour: int, drawn: TrafficHour, steps: int, refit_every: int) -> None:
        """Refit before and score in each step of an hour."""
        since = drawn.events.times / SECONDS_PER_HOUR - self.first_hour - hour
        step_of = np.clip(np.floor(since * steps), 0, steps - 1)
        for step in range(steps):
            if self.steps_done % refit_every == 0:
                self._refit(self.first_hour + hour + step / steps)
            self.steps_done += 1
            chosen = np.flatnonzero(step_of == step)
            events = drawn.events.select(chosen)
            truth = None if drawn.truth is None else drawn.truth[chosen]
            self.accumulator.add(self.first_hour + hour, events, truth, self._predicted(events))
            self.learn(hour, events)

    def _refit(self, moment: float) -> None:
        history = self.past.as_of(moment)
        for method in self.methods:
            if method.name in self.unavailable:
                continue
            try:
                self.predictors[method.name] = method.refit(history, self.names)
            except MethodUnavailable as reason:
                self._leave(method.name, str(reason))

    def _predicted(self, events: EventTable) -> dict[str, Floats]:
        rows, predicted = events.rows.astype(np.int64), {}
        for name, predict in list(self.predictors.items()):
            try:
                predicted[name] = predict(rows, events.scores)
            except MethodUnavailable as reason:
                self._leave(name, str(reason))
        return predicted

    def _leave(self, name: str, reason: str) -> None:
        """A method that cannot go on has no figures."""
        self.unavailable[name] = reason
        self.predictors.pop(name, None)
        self.accumulator.remove(name)

    def results(self, seed: int) -> Results:
        """What it found."""
        names = tuple(each.name for each in self.methods if each.name not in self.unavailable)
        notes = {each.name: each.note for each in self.methods if each.note}
        return Results(names, (self.accumulator.results(seed),), notes, self.unavailable)
