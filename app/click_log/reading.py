"""Reading clicks and conversions of one target from the parts of many hours."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.click_log.columns import (
    BEHAVIOUR,
    CAMPAIGN,
    CATEGORY,
    CLICK_ID,
    CLICKED_AT,
    CONVERTED_AT,
    FEATURE,
    ID_TYPE,
    NUMBER,
    OCCURRED_AT,
    PROBABILITY,
    SCORE,
    TARGET,
    stacked,
)
from app.click_log.logged_clicks import LoggedClicks
from app.click_log.logged_conversions import LoggedConversions
from app.click_log.partitions import CLICKS, CONVERSIONS, partitions_between
from app.click_log.reading_order import distinct_clicks, first_rows
from app.click_log.sampling import Sample, thinned
from app.click_log.shelf import Shelf


def read_clicks(
    shelf: Shelf, target: str, first: float, behind: float, sample: Sample
) -> LoggedClicks:
    """The clicks with a score for the target and clicked_at in [first, behind), by hour."""
    empty = _no_clicks(target)
    repeats = conflicts = 0
    settled = []
    for tables in _hours(shelf, CLICKS, first, behind, _wanted_of_clicks(target)):
        hour = distinct_clicks(
            _scored(stacked([empty, *tables]), target, first, behind), sample.seed
        )
        sample.add(hour.table, hour.hashes)
        settled += [thinned(settled_conversions(table, target), sample) for table in tables]
        repeats, conflicts = repeats + hour.repeats, conflicts + hour.conflicts
    kept, hashes = sample.rows()
    clicks = first_rows(stacked([empty, *kept]), hashes)
    return LoggedClicks.of(
        clicks.table,
        target,
        LoggedConversions.of([thinned(table, sample) for table in settled]),
        total=sample.total,
        repeats=repeats + clicks.repeats,
        conflicts=conflicts + clicks.conflicts,
    )


def read_conversions(
    shelf: Shelf, target: str, first: float, behind: float, sample: Sample
) -> LoggedConversions:
    """The target's conversions with occurred_at in [first, behind), of clicks in the sample."""
    hours = _hours(shelf, CONVERSIONS, first, behind, {CLICK_ID, TARGET, OCCURRED_AT}.__contains__)
    tables = [_converted(table, target, first, behind) for tables in hours for table in tables]
    return LoggedConversions.of([thinned(table, sample) for table in tables])


def _hours(
    shelf: Shelf, dataset: str, first: float, behind: float, wanted: Callable[[str], bool]
) -> Iterator[list[Any]]:
    """The tables of each hour; one hour at a time is in memory."""
    partitions = partitions_between(dataset, first, behind)
    for parts in shelf.list_days(partitions).values():
        yield shelf.read(parts, wanted).tables


def _wanted_of_clicks(target: str) -> Callable[[str], bool]:
    own = {CLICK_ID, CAMPAIGN, CLICKED_AT, *(name + target for name in _OF_TARGET)}
    return lambda name: name in own or name.startswith((BEHAVIOUR, FEATURE))


_OF_TARGET = (SCORE, PROBABILITY, CONVERTED_AT)


def _no_clicks(target: str) -> Any:
    """The columns that are there even where no part has them."""
    numbers = [(name, NUMBER) for name in (CLICKED_AT, SCORE + target, PROBABILITY + target)]
    return pa.schema([(CLICK_ID, ID_TYPE), (CAMPAIGN, CATEGORY), *numbers]).empty_table()


def _scored(table: Any, target: str, first: float, behind: float) -> Any:
    table = _drop(table, CONVERTED_AT + target)
    scored = pc.is_valid(table[SCORE + target])
    return _only(table, pc.and_(scored, _within(table[CLICKED_AT], first, behind)))


def settled_conversions(table: Any, target: str) -> Any:
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


def _drop(table: Any, name: str) -> Any:
    return table.drop_columns([name]) if name in table.schema.names else table
