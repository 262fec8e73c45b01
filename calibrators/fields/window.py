"""What a fit of effects reads of the hours: numbers by campaign and value, names once."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Final, NamedTuple

import numpy as np

from calibrators.bins.table import BinsTable, History, TablesByField
from calibrators.fields.sums import OTHER, BoundedRows, pair_ends, row_ends, values_alone
from calibrators.samples import Integers, Singles, sum_at

MOST_ROWS: Final = 200_000
"""Rows of an hour that a fit reads, all fields together: 48 hours of them are some 120 MB."""
_MOST_NAMES: Final = 4 * MOST_ROWS
"""Names that are remembered, those of rows that are gone among them; then all is read anew."""
_READ_AGAIN: Final = 50_000
"""Rows of older hours that a refit reads again, of those that held the fewest: history that is sent
or loaded late finds them empty. More of them would be read from the store at each refit."""


class RowSums(NamedTuple):
    """Rows by number, predicted and observed positives of each, (n,)."""

    rows: Integers
    expected: Singles
    observed: Singles


class HourSums(NamedTuple):
    """Of an hour, by field and by pair; `scatter` is the mean of 1 - p over predicted positives,
    `totals` what the tables held when they were read."""

    campaigns: Mapping[str, RowSums]
    pairs: Mapping[str, RowSums]
    scatter: float
    totals: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """How many rows there are."""
        return sum(len(part.rows) for part in (*self.campaigns.values(), *self.pairs.values()))


@dataclass(slots=True)
class FieldWindow:
    """The hours that were read, and the numbers of the rows' names; what a refit leaves to the
    next, so that each reads the newest hours only."""

    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    hours: dict[int, HourSums] = field(default_factory=dict)
    campaigns: dict[str, int] = field(default_factory=dict)
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    """Codes of the campaigns, and of each field's values, in the names of rows."""
    ends: dict[str, tuple["array[int]", "array[int]"]] = field(default_factory=dict)
    """By field or pair the codes of both ends of the rows' names."""

    def read(self, history: History, hours: range) -> None:
        """Reads what is missing of these hours, and forgets the others; the newest two again, and
        those that held little, if events still came."""
        if sum(map(len, self.numbers.values())) > _MOST_NAMES:
            self.numbers, self.hours, self.ends = {}, {}, {}
            self.campaigns, self.values = {}, {}
        self.hours = {hour: sums for hour, sums in self.hours.items() if hour in hours}
        again = self._small() | {*hours[-2:]}
        for hour in hours:
            if hour not in self.hours or hour in again:
                self.hours[hour] = self._sums(history, hour, self.hours.get(hour))

    def _small(self) -> set[int]:
        """The hours with the fewest rows, of `_READ_AGAIN` together."""
        smallest = sorted(self.hours, key=lambda hour: self.hours[hour].size)
        sizes = accumulate(self.hours[hour].size for hour in smallest)
        return {hour for hour, size in zip(smallest, sizes, strict=True) if size <= _READ_AGAIN}

    def owners(self, field: str) -> dict[str, str]:
        """The value of a field, such as the advertiser, by campaign, as far as any was said: of
        several that with the most predicted positives, of equals the first by name."""
        rows = list(self.numbers.get(field, ()))
        totals = np.zeros(len(rows))
        held = (sums.campaigns.get(field) for sums in self.hours.values() if rows)
        for part in filter(None, held):
            totals += sum_at(part.rows, part.expected.astype(np.float64), len(rows))
        found: dict[str, str] = {}
        # The last that is written is the largest.
        for total, row in sorted(zip((-totals).tolist(), rows, strict=True), reverse=True):
            campaign, value = row_ends(row)
            if campaign and value != OTHER and total < 0.0:
                found[campaign] = value
        return found

    def _sums(self, history: History, hour: int, known: HourSums | None) -> HourSums:
        assert history.fields is not None
        tables = history.fields(hour)
        totals = _totals(tables)
        if known is not None and known.totals == totals:
            return known
        most = BoundedRows(MOST_ROWS // max(len(tables.campaigns), 1), values_alone)
        campaigns = {
            name: self._rows(name, most.of(table)) for name, table in tables.campaigns.items()
        }
        pairs = {name: self._rows(name, table) for name, table in tables.pairs.items()}
        scatter = [_scatter(table) for table in tables.fields.values() if len(table)]
        return HourSums(campaigns, pairs, scatter[0] if scatter else 1.0, totals)

    def _rows(self, name: str, table: BinsTable) -> RowSums:
        numbers = self.numbers.setdefault(name, {})
        rows = [numbers.setdefault(row, len(numbers)) for row in table.campaigns]
        self._part(name, numbers)
        expected, observed = table.outcomes()
        return RowSums(np.array(rows, np.int32), expected.astype("f4"), observed.astype("f4"))

    def _part(self, name: str, numbers: dict[str, int]) -> None:
        """The names of new rows: once, not at each refit."""
        first, second = pair_ends(name)
        of_values = [self.values.setdefault(end, {OTHER: 0}) for end in (first, second) if end]
        codes = of_values if second else [self.campaigns, *of_values]
        ends = self.ends.setdefault(name, (array("i"), array("i")))
        new = islice(reversed(numbers), len(numbers) - len(ends[0]))
        for row in [*new][::-1]:
            for end, known, found in zip(row_ends(row), codes, ends, strict=True):
                found.append(known.setdefault(end, len(known)))


def _totals(tables: TablesByField) -> tuple[bytes, ...]:
    """By table its name, and what all rows hold together: no event leaves them as they were."""
    parts = (tables.fields, tables.pairs, tables.campaigns)
    named = [item for part in parts for item in part.items()]
    return tuple(name.encode() + table.sums.sum(axis=1).tobytes() for name, table in named)


def _scatter(table: BinsTable) -> float:
    scores, _, weights, _ = table.samples()
    expected = float(scores @ weights)
    return 1.0 - float(scores**2 @ weights) / expected if expected > 0 else 1.0


class TermRows:
    """Rows of a field's campaigns and values, or of a pair's values, hour by hour.

    firsts, seconds : the names' codes of each row, (r,).
    rows, hours, expected, observed : of each row and hour that hold something, (n,).
    """

    def __init__(self, window: FieldWindow, name: str, sums: Sequence[HourSums]) -> None:
        """Of a field or pair, in these hours."""
        self.labels = tuple(window.numbers[name])
        self.firsts, self.seconds = (np.array(found, np.int64) for found in window.ends[name])
        parts = [each.campaigns.get(name) or each.pairs.get(name) for each in sums]
        held = [(hour, part) for hour, part in enumerate(parts) if part is not None]
        none = np.empty(0)
        columns = (np.concatenate([none, *(part[place] for _, part in held)]) for place in range(3))
        rows, self.expected, self.observed = columns
        hours = [np.full(len(part.rows), hour) for hour, part in held]
        self.rows = rows.astype(np.int64)
        self.hours = np.concatenate([none, *hours]).astype(np.int64)

    def keys(self, codes: Integers, hours: int) -> Integers:
        """Where each row's code, (r,), and hour stand in a table (size, hours), (n,)."""
        found: Integers = codes[self.rows] * hours + self.hours
        return found.astype(np.int32)
