"""A log of scored impressions as columns: what backtests read and the platform writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import (
    Floats,
    Integers,
    as_vector,
    check_equal_lengths,
    check_finite_sum,
    check_not_negative,
    check_unit_interval,
)
from evaluation.campaign_codes import encode_campaigns

SECONDS_PER_HOUR = 3600.0
TIMES_END = 1e12

Rows = NDArray[np.int32]
Number = TypeVar("Number", np.float64, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """n impressions with their outcomes; columns of shape (n,), in any order of time.

    Attributes
    ----------
    times : epoch seconds, under 1e12 in size (so milliseconds are refused).
    campaigns : distinct names.
    rows : index into `campaigns` of each impression.
    scores : probabilities the upstream model predicted, in [0, 1].
    outcomes : in [0, 1].
    bids : at least 0, or None where the log has none.
    weights : how many impressions each row stands for, above 0, where rows of one hour, campaign
        and cell of scores were taken together (`evaluation.event_cells`); None: each is one.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    Examples
    --------
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
            checked["weights"] = _check_weights(self.weights)
        check_equal_lengths(**checked)
        _check_distinct(self.campaigns)
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
        return cls(
            _join([table.times for table in tables], np.float64),
            names,
            _join([table._rows_among(rank) for table in tables], np.int32),
            _join([table.scores for table in tables], np.float64),
            _join([table.outcomes for table in tables], np.float64),
            _join(bids, np.float64) if tables and len(bids) == len(tables) else None,
            _join([table.counts for table in tables], np.float64) if weighted else None,
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
        return EventTable(
            self.times[chosen],
            self.campaigns,
            self.rows[chosen],
            self.scores[chosen],
            self.outcomes[chosen],
            None if self.bids is None else self.bids[chosen],
            None if self.weights is None else self.weights[chosen],
        )

    def _rows_among(self, rank: dict[str, int]) -> Rows:
        return np.array([rank[name] for name in self.campaigns], np.int32)[self.rows]


def _join(columns: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    return np.concatenate([np.empty(0, dtype), *columns])


def _check_times(values: ArrayLike) -> Floats:
    times = as_vector("times", values)
    inside = np.abs(times) < TIMES_END
    if not inside.all():
        first = int(np.argmin(inside))
        raise ValueError(
            f"times[{first}] = {times[first]}: must be epoch seconds, finite and under 1e12"
        )
    return times


def _check_weights(values: ArrayLike) -> Floats:
    weights = check_not_negative("weights", values)
    if not weights.all():
        raise ValueError(f"weights[{int(np.argmin(weights))}] = 0.0: every row must stand for some")
    check_finite_sum("weights", weights)
    return weights


def _check_rows(values: Rows, campaigns: int) -> Rows:
    rows = np.asarray(values)
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
        raise ValueError("rows must be whole numbers of one dimension")
    inside = (rows >= 0) & (rows < campaigns)
    if not inside.all():
        first = int(np.argmin(inside))
        raise ValueError(
            f"rows[{first}] = {rows[first]}: must point at one of {campaigns} campaigns"
        )
    return rows.astype(np.int32)


def _check_distinct(campaigns: tuple[str, ...]) -> None:
    seen = set(campaigns)
    if len(seen) != len(campaigns):
        twice = next(name for name in campaigns if campaigns.count(name) > 1)
        raise ValueError(f"campaigns: {twice!r} stands there twice")
