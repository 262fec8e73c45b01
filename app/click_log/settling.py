"""Settling: once nothing can change any more, click rows are told when they converted."""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.click_log.columns import CLICK_ID, CLICKED_AT, CONVERTED_AT
from app.click_log.compaction import merged
from app.click_log.logged_conversions import LoggedConversions
from app.click_log.partitions import CLICKS, Partition
from app.click_log.parts import SETTLED, Part
from app.click_log.reading import read_conversions, settled_conversions
from app.click_log.sampling import Sample
from app.click_log.shelf import Contents, Shelf

Windows = Mapping[str, float]
"""Target -> attribution window in seconds."""

_AT_ONCE = 24
"""Hours settled from one reading of the conversions."""
_MARK_DIGITS = 8


def settle(shelf: Shelf, windows: Windows, as_of: float) -> int:
    """Settle what is due at `as_of` and is not settled yet; returns the number of partitions.

    A partition is due for a target when the attribution window of its last click is over. Parts
    that come later are settled the next time.
    """
    due = {
        partition: parts
        for partition, parts in shelf.list(CLICKS).items()
        if (over := _over(partition, windows, as_of)) and not _is_settled(parts, over)
    }
    for batch in _batches(sorted(due)):
        conversions = _conversions(shelf, batch, windows)
        for partition in batch:
            over = _over(partition, windows, as_of)
            _settle(shelf, shelf.read(due[partition]), over, conversions)
    return len(due)


def _settle(
    shelf: Shelf, contents: Contents, windows: Windows, logged: Mapping[str, LoggedConversions]
) -> None:
    if not contents.parts:
        return
    table = merged(contents)
    for target, window in windows.items():
        own = LoggedConversions.of([settled_conversions(old, target) for old in contents.tables])
        times = _first_times(table, logged[target].with_others(own), window)
        name = CONVERTED_AT + target
        if name in table.schema.names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array(times, mask=np.isnan(times)))
    table = table.select(sorted(table.schema.names))
    shelf.replace(contents.parts, SETTLED, table, _mark(windows))


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
    shelf: Shelf, batch: Sequence[Partition], windows: Windows
) -> dict[str, LoggedConversions]:
    first, last = batch[0].begins, batch[-1].ends
    return {
        target: read_conversions(shelf, target, first, last + window, Sample())
        for target, window in windows.items()
    }


def _over(partition: Partition, windows: Windows, as_of: float) -> Windows:
    """The targets whose attribution window is over for every click of the partition."""
    return {
        target: window for target, window in windows.items() if partition.ends + window <= as_of
    }


def _is_settled(parts: Sequence[Part], over: Windows) -> bool:
    return len(parts) == 1 and parts[0].kind == SETTLED and parts[0].mark == _mark(over)


def _mark(windows: Windows) -> str:
    """What tells a settled part from one settled for other targets or windows."""
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
