"""A log of scored impressions as columns: what backtests read and platforms write.

`EventCells` takes impressions together by hour, campaign and cell of scores: a long log in little
memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.bins.bins import GRID, cell_means, fixed_sums
from calibrators.bins.codecs import Part, sum_by_key, sum_parts
from calibrators.bins.model_versions import SEPARATOR, named, parted
from calibrators.bins.table import BinsTable
from calibrators.fields.columns import FieldColumns, end_to_end
from calibrators.fields.columns import chosen as chosen_of
from calibrators.samples import (
    Floats,
    Integers,
    all_obey,
    as_vector,
    check_equal_lengths,
    check_finite_sum,
    check_not_negative,
    check_unit_interval,
)
from evaluation.metrics.calibration import scorecard
from evaluation.metrics.predictions import encode_campaigns

SECONDS_PER_HOUR = 3600.0
TIMES_END = 1e12

Rows = NDArray[np.int32]
Number = TypeVar("Number", np.float64, np.int32)
_COLUMNS = ("times", "rows", "scores", "outcomes", "bids", "weights")


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """n impressions with their outcomes; columns of shape (n,), in any order of time.

    times : epoch seconds, under 1e12 in size (so milliseconds are refused).
    campaigns : distinct names.
    rows : index into `campaigns` of each impression.
    scores : probabilities the upstream model predicted, in [0, 1].
    outcomes : in [0, 1].
    bids : at least 0, or None where the log has none.
    weights : how many impressions each row stands for, above 0, where rows of one hour, campaign
        and cell of scores were taken together; None: each is one.
    fields : their fields, such as device; None where the log has none.

    >>> table = EventTable.from_columns([7200.5, 3599.0], ["b", "a"], [0.1, 0.2], [0, 1])
    >>> table.campaigns, table.rows.tolist(), table.hours.tolist()
    (('a', 'b'), [1, 0], [2, 0])
    """

    times: Floats
    campaigns: tuple[str, ...]
    rows: Rows
    scores: Floats
    outcomes: Floats
    bids: Floats | None = None
    weights: Floats | None = None
    fields: FieldColumns | None = None

    def __post_init__(self) -> None:
        checked: dict[str, NDArray[np.float64] | Rows] = {
            "times": _check_times(self.times),
            "rows": _check_rows(self.rows, len(self.campaigns)),
            "scores": check_unit_interval("scores", self.scores),
            "outcomes": check_unit_interval("outcomes", self.outcomes),
        }
        if self.bids is not None:
            checked["bids"] = check_not_negative("bids", self.bids)
        if self.weights is not None:
            weights = check_not_negative("weights", self.weights)
            all_obey("weights", weights, weights > 0.0, "every row must stand for some")
            check_finite_sum("weights", weights)
            checked["weights"] = weights
        codes = {name: column.codes for name, column in (self.fields or {}).items()}
        check_equal_lengths(**checked, **codes)
        if len(set(self.campaigns)) != len(self.campaigns):
            twice = next(name for name in self.campaigns if self.campaigns.count(name) > 1)
            raise ValueError(f"campaigns: {twice!r} stands there twice")
        for name, column in checked.items():
            object.__setattr__(self, name, column)

    @classmethod
    def from_columns(
        cls,
        times: ArrayLike,
        campaigns: Sequence[str],
        scores: ArrayLike,
        outcomes: ArrayLike,
        bids: ArrayLike | None = None,
    ) -> Self:
        """The table of columns that name each impression's campaign; names are put in order."""
        found, codes = encode_campaigns(campaigns)
        names = tuple(sorted(set(map(str, found))))
        rank = {name: row for row, name in enumerate(names)}
        return cls(
            as_vector("times", times),
            names,
            np.array([rank[str(name)] for name in found], np.int32)[codes],
            as_vector("scores", scores),
            as_vector("outcomes", outcomes),
            None if bids is None else as_vector("bids", bids),
        )

    @classmethod
    def concatenate(cls, tables: Sequence["EventTable"]) -> Self:
        """The tables one after the other; bids are kept when all tables have them."""
        names = tuple(sorted(set().union(*(table.campaigns for table in tables))))
        rank = {name: row for row, name in enumerate(names)}
        bids = [table.bids for table in tables if table.bids is not None]
        weighted = any(table.weights is not None for table in tables)
        fields = [(len(table), table.fields or {}) for table in tables]
        return cls(
            _join([table.times for table in tables], np.float64),
            names,
            _join([table._rows_among(rank) for table in tables], np.int32),
            _join([table.scores for table in tables], np.float64),
            _join([table.outcomes for table in tables], np.float64),
            _join(bids, np.float64) if tables and len(bids) == len(tables) else None,
            _join([table.counts for table in tables], np.float64) if weighted else None,
            end_to_end(fields) if any(columns for _, columns in fields) else None,
        )

    def __len__(self) -> int:
        return len(self.times)

    @property
    def hours(self) -> Integers:
        """Hour of each impression, floor(times / 3600), shape (n,)."""
        return np.floor(self.times / SECONDS_PER_HOUR).astype(np.int64)

    @property
    def counts(self) -> Floats:
        """How many impressions each row stands for, shape (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights

    @property
    def positives(self) -> Floats:
        """How many positives each row stands for, shape (n,)."""
        return self.outcomes if self.weights is None else self.weights * self.outcomes

    def select(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "EventTable":
        """The impressions that an index array or a mask of shape (n,) chooses."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        held = {name: column[chosen] for name, column in columns.items() if column is not None}
        fields = None if self.fields is None else chosen_of(self.fields, chosen)
        return replace(self, **held, fields=fields)

    def of_versions(self, versions: Sequence[str], codes: Integers) -> "EventTable":
        """The same impressions, each as scored by the version of the model with this code, (n,),
        among distinct names; the empty name is none. See `calibrators.bins.model_versions`."""
        numbers = self.rows.astype(np.int64) * len(versions) + codes
        pairs, rows = np.unique(numbers, return_inverse=True)
        places = zip(*(column.tolist() for column in divmod(pairs, len(versions))), strict=True)
        names = [named(self.campaigns[row], versions[code] or None) for row, code in places]
        return self._renamed(names, rows)

    def without_versions(self) -> "EventTable":
        """The same impressions under the campaigns' own names."""
        if SEPARATOR not in "".join(self.campaigns):
            return self
        return self._renamed([parted(name)[0] for name in self.campaigns], self.rows)

    def _renamed(self, names: Sequence[str], rows: Integers | Rows) -> "EventTable":
        distinct = tuple(sorted(set(names)))
        rank = {name: row for row, name in enumerate(distinct)}
        codes = np.array([rank[name] for name in names], np.int32)
        return replace(self, campaigns=distinct, rows=codes[rows])

    def _rows_among(self, rank: dict[str, int]) -> Rows:
        return np.array([rank[name] for name in self.campaigns], np.int32)[self.rows]


def scorecards(
    events: EventTable, predictions: Mapping[str, Floats]
) -> dict[str, dict[str, float]]:
    """The `scorecard` of each of these probabilities of the events, (n,), by name."""
    return {
        name: scorecard(p, events.outcomes, events.rows, sample_weight=events.weights)
        for name, p in predictions.items()
    }


def _join(columns: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    return np.concatenate([np.empty(0, dtype), *columns])


def _check_times(values: ArrayLike) -> Floats:
    times = as_vector("times", values)
    inside = np.abs(times) < TIMES_END
    return all_obey("times", times, inside, "must be epoch seconds, finite and under 1e12")


def _check_rows(values: Rows, campaigns: int) -> Rows:
    rows = np.asarray(values)
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
        raise ValueError("rows must be whole numbers of one dimension")
    inside = (rows >= 0) & (rows < campaigns)
    return all_obey("rows", rows, inside, f"must point at one of {campaigns} campaigns").astype(
        np.int32
    )


_CELL_BITS, _CAMPAIGN_BITS = 12, 20
_HOUR_SHIFT = _CELL_BITS + _CAMPAIGN_BITS
_FIRST_HOUR = -(1 << 29)


class EventCells:
    """Counts, score sums and outcomes of every (hour, campaign, cell) of the tables added so far.

    The cells are those of the grid that calibrators are fitted on (`calibrators.bins.bins`), so a
    backtest of the cells fits the very maps that one of the impressions does. A row is evaluated at
    the mean score of its cell, which is 0.8 % wide at most. Sums are whole numbers: the order of
    the tables and of their rows is of no effect.

    >>> cells = EventCells()
    >>> cells.add(EventTable.from_columns([0, 9, 3600], ["a"] * 3, [0.1, 0.1, 0.1], [1, 0, 0]))
    >>> table = cells.table()
    >>> table.weights.tolist(), table.outcomes.tolist(), table.hours.tolist()
    ([2.0, 1.0], [0.5, 0.0], [0, 1])
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._held: list[Part] = []
        self._waiting = 0

    def add(self, table: EventTable) -> None:
        """Take in the impressions of a table; their bids are forgotten.

        Raises ValueError when there are more than a million campaigns.
        """
        keys = (table.hours - _FIRST_HOUR) << _HOUR_SHIFT
        keys |= self._campaigns(table) << _CELL_BITS
        keys |= GRID.cells_of(table.scores)
        sums = fixed_sums(table.scores, table.counts, table.positives)
        self._held.append(sum_by_key(keys, sums))
        self._waiting += len(self._held[-1][0])
        if self._waiting > len(self._held[0][0]):
            self._merge()

    def __len__(self) -> int:
        """How many rows the table will have."""
        self._merge()
        return len(self._held[0][0]) if self._held else 0

    def table(self) -> EventTable:
        """The impressions added, one row for each cell of an hour and campaign."""
        self._merge()
        if not self._held:
            return EventTable.concatenate([])
        keys, sums = self._held[0]
        cells = keys & ((1 << _CELL_BITS) - 1)
        scores, outcomes, weights = cell_means(cells, sums)
        names = tuple(sorted(self._codes))
        rank = np.empty(len(names), np.int32)
        rank[[self._codes[name] for name in names]] = np.arange(len(names))
        return EventTable(
            SECONDS_PER_HOUR * ((keys >> _HOUR_SHIFT) + _FIRST_HOUR).astype(np.float64),
            names,
            rank[(keys >> _CELL_BITS) & ((1 << _CAMPAIGN_BITS) - 1)],
            scores,
            outcomes,
            weights=weights,
        )

    def by_hour(self) -> Iterator[tuple[int, BinsTable]]:
        """The bins of each hour, ascending: those of the impressions themselves, to the last bit.

        >>> cells = EventCells()
        >>> cells.add(EventTable.from_columns([0, 9, 3600], ["a"] * 3, [0.1, 0.1, 0.1], [1, 0, 0]))
        >>> [(hour, table.total().total_count) for hour, table in cells.by_hour()]
        [(0, 2.0), (1, 1.0)]
        """
        self._merge()
        if not self._held:
            return
        keys, sums = self._held[0]
        names = list(self._codes)
        starts = np.flatnonzero(np.diff(keys >> _HOUR_SHIFT, prepend=-1))
        for start, end in pairwise([*starts.tolist(), len(keys)]):
            hour = int(keys[start] >> _HOUR_SHIFT) + _FIRST_HOUR
            some = keys[start:end]
            codes = (some >> _CELL_BITS) & ((1 << _CAMPAIGN_BITS) - 1)
            present, rows = np.unique(codes, return_inverse=True)
            cells = some & ((1 << _CELL_BITS) - 1)
            campaigns = [names[code] for code in present.tolist()]
            yield hour, BinsTable.from_cells(campaigns, rows, cells, sums[:, start:end])

    def _campaigns(self, table: EventTable) -> Integers:
        """The code of each row's campaign; one campaign keeps its code from table to table."""
        for name in table.campaigns:
            self._codes.setdefault(name, len(self._codes))
        if len(self._codes) > 1 << _CAMPAIGN_BITS:
            raise ValueError(f"{len(self._codes):,} campaigns: there may be a million at most")
        codes = np.array([self._codes[name] for name in table.campaigns], np.int64)
        return codes[table.rows]

    def _merge(self) -> None:
        if len(self._held) > 1:
            self._held = [sum_parts(self._held)]
        self._waiting = 0
