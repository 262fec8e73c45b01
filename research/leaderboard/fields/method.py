"""What a method of the worlds with fields is; the scores as they are, and `pooled`."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Final, Protocol, Self

import numpy as np

from calibrators.fields.columns import Codes
from calibrators.fields.sums import PAIR, FieldColumn, FieldTables
from calibrators.maps.atlas import Atlas
from calibrators.maps.groups import FieldGroups
from calibrators.pooled import Pooled
from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import SECONDS_PER_HOUR
from evaluation.simulation.parts import START
from research.leaderboard.boosted_maps import log_odds
from research.leaderboard.fields.platform import FieldHour
from research.leaderboard.method import LeaderboardMethod, Past, Predictor, ServiceMethod

FIRST_HOUR = int(START // SECONDS_PER_HOUR)
"""Hour 0 of the worlds, in hours since 1970."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a method knows of a world: its campaigns, and how many values each field has."""

    campaigns: tuple[str, ...]
    values: Mapping[str, int]


class FieldMethod(Protocol):
    """Learns hour by hour, and gives probabilities; made anew for every run."""

    def observe(self, hour: FieldHour, /) -> None:
        """Take in an hour with its outcomes; hours come in order."""

    def predict(self, hour: FieldHour, /) -> Floats:
        """Probabilities, (n,), of the impressions of the hour after those observed, which is blind:
        its outcomes are not known.

        Raises MethodUnavailable where the method cannot be had here.
        """


class Raw:
    """The scores as they are."""

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        return hour.events.scores


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Impressions as columns: log-odds of the score, (n,), outcomes, (n,), and the codes of the
    campaign and of each field, (n,) each."""

    odds: Floats
    outcomes: Floats
    codes: Mapping[str, Integers]

    @classmethod
    def of(cls, hours: Sequence[FieldHour]) -> Self:
        """The impressions of some hours, at least one."""
        codes = {name: [hour.fields[name] for hour in hours] for name in hours[0].fields}
        codes["campaign"] = [hour.campaigns for hour in hours]
        return cls(
            log_odds(np.concatenate([hour.events.scores for hour in hours])),
            np.concatenate([hour.events.outcomes for hour in hours]),
            {name: np.concatenate(parts) for name, parts in codes.items()},
        )


@dataclass(slots=True)
class Window:
    """The newest hours, `hours` of them at most."""

    hours: int
    _held: deque[FieldHour] = field(default_factory=deque)

    def add(self, hour: FieldHour) -> None:
        """Take in the hour that follows."""
        self._held.append(hour)
        while len(self._held) > self.hours:
            self._held.popleft()

    def rows(self, first: int = 0, behind: int = 1 << 30) -> Rows:
        """Their impressions of the hours [first, behind)."""
        return Rows.of([hour for hour in self._held if first <= hour.number < behind])


class PooledMaps:
    """`pooled` as the service runs it, refitted every hour.

    keyed : fields whose values are a part of the key: a campaign has a map for each combination.
    """

    def __init__(self, shape: Shape, keyed: Sequence[str] = ()) -> None:
        self._keyed = [name for name in keyed if name in shape.values]
        self._sizes = [shape.values[name] for name in self._keyed]
        self._names = _keys(shape.campaigns, self._sizes)
        self._past = Past(len(self._names))
        self._method: LeaderboardMethod = ServiceMethod("pooled", Pooled(), trial=True)

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        rows = self._rows(hour).astype(np.int32)
        events = replace(hour.events, campaigns=self._names, rows=rows)
        self._past.add(FIRST_HOUR + hour.number, events)

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        history = self._past.as_of(float(FIRST_HOUR + hour.number))
        serve: Predictor = self._method.refit(history, self._names)
        return serve(self._rows(hour), hour.events.scores)

    def _rows(self, hour: FieldHour) -> Integers:
        rows = hour.campaigns
        for name, size in zip(self._keyed, self._sizes, strict=True):
            rows = rows * size + hour.fields[name]
        return rows


def _keys(campaigns: Sequence[str], sizes: Sequence[int]) -> tuple[str, ...]:
    """A name for each combination of campaign and values, the last one's value changing first."""
    values = [[f"{value:04d}" for value in range(size)] for size in sizes]
    return tuple("/".join(key) for key in product(campaigns, *values))


ADVERTISER: Final = "advertiser"

REFIT_BEFORE: Final = 4
"""Hours between refits before the first hour that is predicted."""


class PooledFields:
    """`pooled` with effects of fields, and of pairs, from their sums; as the service runs it: what
    the maps in force gave without effects is what an hour's tables have as predicted.

    grouped : whether campaigns of an advertiser, where there are such, are a group.
    """

    def __init__(self, shape: Shape, pairs: bool = True, grouped: bool = False) -> None:
        self._names = shape.campaigns
        self._values = {
            name: tuple(f"{value:04d}" for value in range(size))
            for name, size in shape.values.items()
        }
        self._pairs = [PAIR.join(pair) for pair in combinations(shape.values, 2) if pairs]
        self._past = Past(len(self._names))
        self._tables: dict[int, FieldTables] = {}
        self._atlas = Atlas.empty()
        self._memory: object = None
        self._groups = grouped and ADVERTISER in shape.values
        self._method = Pooled(groups=FieldGroups(ADVERTISER) if self._groups else None)
        self.notes: Mapping[str, object] = {}
        self._predicts = False

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        events, number = hour.events, FIRST_HOUR + hour.number
        served = self._atlas.look_up(self._rows(hour), events.scores)
        columns = (served, np.asarray(events.counts), np.asarray(events.positives))
        values = {name: FieldColumn(self._values[name], hour.fields[name]) for name in self._values}
        campaigns = FieldColumn(self._names, hour.campaigns)
        tables = FieldTables.from_events(campaigns, values, self._pairs, columns)
        self._tables[number] = tables
        self._past.add(number, events)
        if not self._predicts and hour.number % REFIT_BEFORE == 0:
            self._refit(float(number + 1))

    def _refit(self, moment: float) -> None:
        history = replace(self._past.as_of(moment), fields=self._of_hour)
        fitted = self._method.refit(history, memory=self._memory, trial=True)
        self._atlas, self._memory, self.notes = fitted.atlas, fitted.memory, fitted.notes

    def _rows(self, hour: FieldHour) -> Integers:
        """Of a campaign without a map, the row of its advertiser's."""
        rows = self._atlas.rows(self._names)[hour.campaigns]
        if not self._groups:
            return rows
        groups = self._atlas.rows_of_groups(self._values[ADVERTISER])
        return np.where(rows, rows, groups[hour.fields[ADVERTISER]])

    def _of_hour(self, hour: int) -> FieldTables:
        return self._tables.get(hour, FieldTables.empty())

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        self._predicts = True
        self._refit(float(FIRST_HOUR + hour.number))
        served = self._atlas.look_up(self._rows(hour), hour.events.scores)
        effects = self._atlas.effects
        return served if effects is None else effects.applied(served, *self._given(hour))

    def quantiles(
        self, hour: FieldHour, served: Floats, levels: Sequence[float], by_fields: bool = True
    ) -> list[Floats]:
        """Of each level what the true probabilities are below with this chance, (n,), given what
        `predict` said of the hour; as if the effects were certain unless `by_fields`."""
        columns = (self._rows(hour), hour.events.scores, served, levels)
        return self._atlas.quantiles(*columns, *(self._given(hour) if by_fields else ()))

    def _given(self, hour: FieldHour) -> tuple[list[str], dict[str, Codes]]:
        columns = {
            name: FieldColumn(names, hour.fields[name]) for name, names in self._values.items()
        }
        effects = self._atlas.effects
        codes = {} if effects is None else effects.coded(columns)
        return [self._names[code] for code in hour.campaigns.tolist()], codes
