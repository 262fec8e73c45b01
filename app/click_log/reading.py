"""Reading one target's clicks and conversions from the parts of many hours.

Which of several rows of one click counts, and a uniform sample of bounded size where there are too
many.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.clicks import LoggedClicks, LoggedConversions
from app.click_log.parts import CLICKS, CONVERSIONS, Contents, Partition, Wanted, partitions_between
from app.click_log.rows import (
    BEHAVIOUR,
    BUCKET,
    CAMPAIGN,
    CATEGORY,
    CLICK_ID,
    CLICKED_AT,
    CONVERTED_AT,
    FEATURE,
    FIELD,
    HIGHEST,
    ID_TYPE,
    NUMBER,
    OCCURRED_AT,
    PROBABILITY,
    SCORE,
    TARGET,
    TEXT,
    VALUE,
    Hashes,
    hash_ids,
    stacked,
)
from calibrators.samples import Floats


def distinct_clicks(table: Any, seed: int = 0) -> tuple[Any, Hashes]:
    """The first row of each click, by (clicked_at, click_id), and the hash of each: the earliest;
    of equally early ones that in the first part."""
    table = in_order(table, CLICKED_AT, CLICK_ID)
    return first_rows(table, hash_ids(table[CLICK_ID], seed))


def first_rows(table: Any, hashes: Hashes) -> tuple[Any, Hashes]:
    """The first row of each click of a table in reading order, given the hashes of its ids."""
    suspects = _suspects(hashes)
    if not len(suspects):
        return table, hashes
    kept = np.delete(np.arange(len(table)), _further(table, suspects))
    return table.take(kept), hashes[kept]


def distinct_conversions(table: Any) -> Any:
    """Conversions by (occurred_at, click_id, target), each once."""
    keys = [OCCURRED_AT, CLICK_ID, TARGET]
    table = in_order(table, *keys)
    columns = [table[key] for key in keys]
    same = np.ones(max(0, len(table) - 1), np.bool_)
    for column in columns:
        same &= np.asarray(pc.equal(column[1:], column[:-1]))
    return table.take(np.flatnonzero(np.concatenate([np.ones(len(table) - len(same)), ~same])))


def in_order(table: Any, *keys: str) -> Any:
    """The rows by these columns, ascending; equal ones stay as they stand."""
    if _is_ordered(table, keys):
        return table
    held = {key: table[key] for key in keys}
    columns = pa.table({k: c.cast(TEXT) if c.type == CATEGORY else c for k, c in held.items()})
    return table.take(pc.sort_indices(columns, sort_keys=[(key, "ascending") for key in keys]))


def _is_ordered(table: Any, keys: tuple[str, ...]) -> bool:
    """Compares ids only where times are equal: that saves most of a sort."""
    times = table[keys[0]].to_numpy()
    if (times[1:] < times[:-1]).any():
        return False
    ties = np.flatnonzero(times[1:] == times[:-1])
    if not len(ties):
        return True
    ids = table[keys[1]]
    return bool(pc.all(pc.less(ids.take(ties), ids.take(ties + 1))).as_py())


def _suspects(hashes: Hashes) -> NDArray[np.intp]:
    """Rows whose hash stands more than once: all that may be of one click."""
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(hashes, twice)) if len(twice) else np.empty(0, np.intp)


def _further(table: Any, suspects: NDArray[np.intp]) -> list[int]:
    """Of the suspects, the rows of a click that stands before, of whatever campaign."""
    seen: set[str] = set()
    further = []
    for row, click_id in zip(
        suspects.tolist(), table[CLICK_ID].take(suspects).to_pylist(), strict=True
    ):
        if click_id in seen:
            further.append(row)
        seen.add(click_id)
    return further


_SLACK = 1.25
"""How far above the limit rows pile up before the surplus goes: thinning costs a pass."""


class Sample:
    """Keeps the `limit` clicks with the lowest hashes of their ids; all where there is no limit.

    Which those are depends on the ids and the seed only: every repeat, in any order and piecewise
    in any way, keeps the same clicks.
    """

    def __init__(self, limit: int | None = None, seed: int = 0) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"max_clicks = {limit}: must be at least 1")
        self.seed = seed
        self.total = 0
        self._limit = limit
        self._highest = HIGHEST
        self._tables: list[Any] = []
        self._hashes: list[Hashes] = []

    def add(self, table: Any, hashes: Hashes) -> None:
        """Take rows of clicks that were not added before."""
        self.total += len(table)
        if self._highest < HIGHEST:
            table, hashes = _at_most(table, hashes, self._highest)
        self._tables.append(table)
        self._hashes.append(hashes)
        if self._limit is not None and sum(map(len, self._hashes)) > _SLACK * self._limit:
            self._lower(self._limit)

    def rows(self) -> tuple[list[Any], Hashes]:
        """The rows kept, in the pieces and the order they came in, and the hash of each, (n,)."""
        if self._limit is not None and sum(map(len, self._hashes)) > self._limit:
            self._lower(self._limit)
        return self._tables, np.concatenate([np.empty(0, np.uint64), *self._hashes])

    def admits(self, ids: Any) -> NDArray[np.bool_]:
        """Which ids, (n,), may still be of clicks that are kept."""
        if self._highest == HIGHEST:
            return np.ones(len(ids), np.bool_)
        return hash_ids(ids, self.seed) <= self._highest

    def _lower(self, limit: int) -> None:
        everything = np.concatenate(self._hashes)
        self._highest = np.partition(everything, limit - 1)[limit - 1]
        pieces = zip(self._tables, self._hashes, strict=True)
        kept = [_at_most(table, hashes, self._highest) for table, hashes in pieces]
        self._tables, self._hashes = [table for table, _ in kept], [hashes for _, hashes in kept]


def sampled(table: Any, sample: Sample) -> Any:
    """The rows whose click may be in the sample."""
    admitted = sample.admits(table[CLICK_ID])
    return table if admitted.all() else table.filter(admitted)


def _at_most(table: Any, hashes: Hashes, highest: np.uint64) -> tuple[Any, Hashes]:
    kept = hashes <= highest
    return (table, hashes) if kept.all() else (table.filter(kept), hashes[kept])


class StoredHours(Protocol):
    """Where the clicks and conversions of each hour are: in parts of a click log, or in what a job
    has made of a lake."""

    def list_days(self, partitions: Sequence[Partition]) -> Mapping[Partition, Any]:
        """The files of those of the hours that have any, oldest first."""

    def read(self, parts: Any, wanted: Wanted) -> Contents:
        """The wanted columns of the files of one hour."""


def read_clicks(
    store: StoredHours, target: str, first: float, behind: float, sample: Sample
) -> LoggedClicks:
    """The clicks with a score for the target and clicked_at in [first, behind), by hour."""
    # The columns that are there even where no part has them.
    numbers = [(name, NUMBER) for name in (CLICKED_AT, SCORE + target, PROBABILITY + target)]
    empty = pa.schema([(CLICK_ID, ID_TYPE), (CAMPAIGN, CATEGORY), *numbers]).empty_table()
    final = []
    for tables in _hours(store, CLICKS, first, behind, _wanted_of_clicks(target)):
        scored = _scored(stacked([empty, *tables]), target, first, behind)
        sample.add(*distinct_clicks(scored, sample.seed))
        final += [sampled(final_conversions(table, target), sample) for table in tables]
    kept, hashes = sample.rows()
    clicks, _ = first_rows(stacked([empty, *kept]), hashes)
    conversions = LoggedConversions.of([sampled(table, sample) for table in final])
    return LoggedClicks.of(clicks, target, conversions, sample.total)


def read_conversions(
    store: StoredHours, target: str, first: float, behind: float, sample: Sample
) -> LoggedConversions:
    """The target's conversions with occurred_at in [first, behind), of clicks in the sample."""
    hours = _hours(store, CONVERSIONS, first, behind, {CLICK_ID, TARGET, OCCURRED_AT}.__contains__)
    tables = [_converted(table, target, first, behind) for tables in hours for table in tables]
    return LoggedConversions.of([sampled(table, sample) for table in tables])


def read_values(
    store: StoredHours, target: str, clicks: LoggedClicks, until: float, window: float
) -> Floats:
    """What the conversions of each click before `until` were worth, (n,); a conversion counts once,
    where it is less than `window` seconds behind its click, and as 0 where no value was sent."""
    values, clicked_at = np.zeros(len(clicks)), clicks.clicks.clicked_at
    if not len(clicks):
        return values
    until = min(until, float(clicked_at[-1]) + window)
    wanted = {CLICK_ID, TARGET, OCCURRED_AT, VALUE}
    hours = _hours(store, CONVERSIONS, float(clicked_at[0]), until, wanted.__contains__)
    # A repeat is of the same hour.
    for table in (distinct_conversions(stacked(tables)) for tables in hours if tables):
        table = table.filter(pc.equal(table[TARGET].cast(TEXT), target))
        ids, times = table[CLICK_ID].combine_chunks().dictionary_encode(), table[OCCURRED_AT]
        found = LoggedConversions(ids.dictionary, np.asarray(ids.indices), times.to_numpy())
        rows = found.rows_among(clicks.click_ids)
        delays = found.converted_at - clicked_at[rows]
        counts = (rows >= 0) & (delays >= 0.0) & (delays < window) & (found.converted_at < until)
        np.add.at(values, rows[counts], np.nan_to_num(table[VALUE].to_numpy())[counts])
    return values


def _hours(
    store: StoredHours, dataset: str, first: float, behind: float, wanted: Callable[[str], bool]
) -> Iterator[list[Any]]:
    """The tables of each hour; one hour at a time is in memory."""
    partitions = partitions_between(dataset, first, behind)
    for parts in store.list_days(partitions).values():
        yield store.read(parts, wanted).tables


def _wanted_of_clicks(target: str) -> Callable[[str], bool]:
    own = {CLICK_ID, CAMPAIGN, CLICKED_AT, BUCKET, *(name + target for name in _OF_TARGET)}
    return lambda name: name in own or name.startswith((BEHAVIOUR, FEATURE, FIELD))


_OF_TARGET = (SCORE, PROBABILITY, CONVERTED_AT)


def _scored(table: Any, target: str, first: float, behind: float) -> Any:
    if (converted := CONVERTED_AT + target) in table.schema.names:
        table = table.drop_columns([converted])
    scored = pc.is_valid(table[SCORE + target])
    return _only(table, pc.and_(scored, _within(table[CLICKED_AT], first, behind)))


def final_conversions(table: Any, target: str) -> Any:
    """The conversions that a part's own rows tell of, as (click_id, time)."""
    name = CONVERTED_AT + target
    if name not in table.schema.names:
        return pa.schema([(CLICK_ID, ID_TYPE), (name, NUMBER)]).empty_table()
    return table.select([CLICK_ID, name]).filter(pc.is_valid(table[name]))


def _converted(table: Any, target: str, first: float, behind: float) -> Any:
    own = pc.equal(table[TARGET].cast(pa.string()), target)
    rows = _only(table, pc.and_(own, _within(table[OCCURRED_AT], first, behind)))
    return rows.select([CLICK_ID, OCCURRED_AT])


def _within(times: Any, first: float, behind: float) -> Any:
    return pc.and_(pc.greater_equal(times, first), pc.less(times, behind))


def _only(table: Any, mask: Any) -> Any:
    """Filtering copies, and as a rule there is nothing to leave out."""
    return table if pc.all(mask, min_count=0).as_py() else table.filter(mask)
