"""Upkeep of the click log: finalise rows, make one part of many, count what was never attributed.

Once the attribution window of an hour's last click is over, its rows get the time of their first
conversion: they are final, and their conversions need not be read any more.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.clicks import LoggedConversions
from app.click_log.parts import (
    CLICKS,
    COMPACT,
    DATASETS,
    FINAL,
    Part,
    Partition,
    partitions_between,
)
from app.click_log.reading import (
    Sample,
    StoredHours,
    distinct_clicks,
    distinct_conversions,
    final_conversions,
    read_conversions,
)
from app.click_log.rows import CLICK_ID, CLICKED_AT, CONVERTED_AT, SCORE, stacked
from app.click_log.store import Contents, PartStore


@dataclass(frozen=True, slots=True)
class UnattributedConversions:
    """Of so many conversions: those without a click, before their click, and behind its window."""

    conversions: int
    orphans: int
    early: int
    late: int


def count_unattributed(
    store: StoredHours, target: str, first: float, behind: float, *, window: float, reach: float
) -> UnattributedConversions:
    """Look at the target's conversions with occurred_at in [first, behind).

    Clicks are looked for from `reach` seconds before the first of them. A click without a score
    for the target is none. One hour of clicks at a time is in memory.
    """
    conversions = read_conversions(store, target, first, behind, Sample())
    delays = np.full(len(conversions), np.nan)
    wanted = {CLICK_ID, CLICKED_AT, SCORE + target}
    listing = store.list_days(partitions_between(CLICKS, first - reach, behind))
    for parts in reversed([*listing.values()]):
        for table in store.read(parts, wanted.__contains__).tables:
            if SCORE + target not in table.schema.names:
                continue
            scored = table.filter(pc.is_valid(table[SCORE + target]))
            rows = conversions.rows_among(scored[CLICK_ID])
            met = rows >= 0
            delays[met] = conversions.converted_at[met] - scored[CLICKED_AT].to_numpy()[rows[met]]
    return UnattributedConversions(
        conversions=len(conversions),
        orphans=int(np.isnan(delays).sum()),
        early=int((delays < 0.0).sum()),
        late=int((delays >= window).sum()),
    )


def compact(store: PartStore, before: float) -> int:
    """Compact every partition that is over `before` (epoch seconds); returns how many were.

    Partitions with a final part are left to `finalise`, which rewrites them anyway.
    """
    listings = [store.list(dataset) for dataset in DATASETS]
    scattered = [
        parts
        for listing in listings
        for partition, parts in listing.items()
        if partition.ends <= before and len(parts) > 1 and parts[0].kind != FINAL
    ]
    for parts in scattered:
        contents = store.read(parts)
        if contents.parts:
            store.replace(contents.parts, COMPACT, merged(contents))
    return len(scattered)


def merged(contents: Contents) -> Any:
    """The partition's rows in reading order, each click or conversion once."""
    table = stacked(contents.tables)
    if contents.parts[0].partition.dataset == CLICKS:
        return distinct_clicks(table)[0]
    return distinct_conversions(table)


Windows = Mapping[str, float]
"""Target -> attribution window in seconds."""

_AT_ONCE = 24
"""Hours finalised from one reading of the conversions."""
_MARK_DIGITS = 8


def finalise(store: PartStore, windows: Windows, as_of: float) -> int:
    """Finalise what is due at `as_of` and is not final yet; returns the number of partitions.

    A partition is due for a target when the attribution window of its last click is over. Parts
    that come later are finalised the next time.
    """
    due = {
        partition: parts
        for partition, parts in store.list(CLICKS).items()
        if (over := _over(partition, windows, as_of)) and not _is_final(parts, over)
    }
    for batch in _batches(sorted(due)):
        conversions = _conversions(store, batch, windows)
        for partition in batch:
            over = _over(partition, windows, as_of)
            _finalise(store, store.read(due[partition]), over, conversions)
    return len(due)


def _finalise(
    store: PartStore, contents: Contents, windows: Windows, logged: Mapping[str, LoggedConversions]
) -> None:
    if not contents.parts:
        return
    table = merged(contents)
    for target, window in windows.items():
        own = LoggedConversions.of([final_conversions(old, target) for old in contents.tables])
        times = _first_times(table, logged[target].with_others(own), window)
        name = CONVERTED_AT + target
        if name in table.schema.names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array(times, mask=np.isnan(times)))
    table = table.select(sorted(table.schema.names))
    store.replace(contents.parts, FINAL, table, _mark(windows))


def _first_times(table: Any, conversions: LoggedConversions, window: float) -> NDArray[np.float64]:
    """When each click first converted, (n,); nan if it did not. As `pccem.attribute` counts."""
    rows = conversions.rows_among(table[CLICK_ID])
    rows, times = rows[rows >= 0], conversions.converted_at[rows >= 0]
    delays = times - table[CLICKED_AT].to_numpy()[rows]
    counts = (delays >= 0.0) & (delays < window)
    first = np.full(len(table), np.inf)
    np.minimum.at(first, rows[counts], times[counts])
    return np.where(first < np.inf, first, np.nan)


def _conversions(
    store: PartStore, batch: Sequence[Partition], windows: Windows
) -> dict[str, LoggedConversions]:
    first, last = batch[0].begins, batch[-1].ends
    return {
        target: read_conversions(store, target, first, last + window, Sample())
        for target, window in windows.items()
    }


def _over(partition: Partition, windows: Windows, as_of: float) -> Windows:
    """The targets whose attribution window is over for every click of the partition."""
    return {
        target: window for target, window in windows.items() if partition.ends + window <= as_of
    }


def _is_final(parts: Sequence[Part], over: Windows) -> bool:
    return len(parts) == 1 and parts[0].kind == FINAL and parts[0].mark == _mark(over)


def _mark(windows: Windows) -> str:
    """What tells a final part from one made for other targets or windows."""
    text = json.dumps(sorted((target, float(window)) for target, window in windows.items()))
    return sha256(text.encode()).hexdigest()[:_MARK_DIGITS]


def _batches(partitions: Sequence[Partition]) -> Iterator[list[Partition]]:
    batch: list[Partition] = []
    for partition in partitions:
        if batch and partition.hour - batch[0].hour >= _AT_ONCE:
            yield batch
            batch = []
        batch.append(partition)
    if batch:
        yield batch
