"""The click log: closed clicks and conversions in Parquet, on this machine or in an object store.

Any number of processes may read and write. One compacts, finalises and expires at a time, as the
worker's lease has it. Where two write the same rows these may stand twice, and are read once.

Once the attribution window of an hour's last click is over, its rows get the time of their first
conversion: they are final, and their conversions need not be read any more.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import inf, nextafter
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.click_log.clicks import LoggedClicks, LoggedConversions
from app.click_log.folder import Folder
from app.click_log.parts import (
    CLICKS,
    COMPACT,
    CONVERSIONS,
    DATASETS,
    FINAL,
    PART,
    QUARANTINE,
    Contents,
    Part,
    Partition,
    PartStore,
    partitions_between,
)
from app.click_log.reading import (
    Sample,
    StoredHours,
    distinct_clicks,
    distinct_conversions,
    final_conversions,
    read_clicks,
    read_conversions,
    read_values,
)
from app.click_log.rows import (
    CLICK_ID,
    CLICKED_AT,
    CONVERTED_AT,
    SCORE,
    ClosedClick,
    click_rows,
    conversion_rows,
    stacked,
)
from app.storage.blocks import StoredConversion
from calibrators.samples import Floats
from pccem import Attribution, attribute


@dataclass(frozen=True, slots=True)
class UnattributedConversions:
    """Of so many conversions: those without a click, before their click, and behind its window."""

    conversions: int
    orphans: int
    early: int
    late: int


def attributed(
    clicks: LoggedClicks, conversions: LoggedConversions, *, window: float, as_of: float
) -> Attribution:
    """One entry per click, from these conversions and those in the clicks' own rows.

    Conversions of clicks that were not read are left out: see `UnattributedConversions`.
    """
    known = conversions.with_others(clicks.final)
    rows = known.rows_among(clicks.click_ids)
    met = rows >= 0
    return attribute(
        np.arange(len(clicks)),
        clicks.clicks.clicked_at,
        rows[met].astype(np.int64),
        known.converted_at[met],
        window=window,
        as_of=as_of,
    )


_ID = "_id"
"""A file that readers of Parquet pass over, because of its first letter."""

_PREFIXES = ("", f"{QUARANTINE}/")


def _over(folder: Folder, path: str, before: float) -> set[Partition]:
    found = {Partition.of_path(entry.path) for entry in folder.entries(path)}
    return {partition for partition in found if partition and partition.ends <= before}


Row = TypeVar("Row")
Windows = Mapping[str, float]
"""Target -> attribution window in seconds."""

_AT_ONCE = 24
"""Hours finalised from one reading of the conversions."""
_MARK_DIGITS = 8


class ClickReader:
    """Reads closed clicks and conversions by hour; times are epoch seconds."""

    def __init__(self, hours: StoredHours) -> None:
        self._hours = hours

    def known(
        self,
        target: str,
        first: float,
        behind: float,
        as_of: float,
        window: float,
        *,
        max_clicks: int | None = None,
        seed: int = 0,
    ) -> tuple[LoggedClicks, Attribution]:
        """The clicks with a score for the target and clicked_at in [first, behind), and what was
        known of each at `as_of`.

        Of more than `max_clicks`, a uniform sample: the same in every repeat with this seed.
        """
        sample = Sample(max_clicks, seed)
        clicks = read_clicks(self._hours, target, first, behind, sample)
        until = min(behind + window, nextafter(as_of, inf)) if len(clicks) else first
        conversions = read_conversions(self._hours, target, first, until, sample)
        return clicks, attributed(clicks, conversions, window=window, as_of=as_of)

    def values(self, target: str, clicks: LoggedClicks, as_of: float, window: float) -> Floats:
        """What the conversions of each click known at `as_of` were worth, (n,)."""
        return read_values(self._hours, target, clicks, nextafter(as_of, inf), window)

    def unattributed(
        self, target: str, first: float, behind: float, *, window: float, reach: float
    ) -> UnattributedConversions:
        """Conversions with occurred_at in [first, behind) that count for no click.

        Clicks are looked for from `reach` seconds before the first of them. A click without a score
        for the target is none. One hour of clicks at a time is in memory.
        """
        conversions = read_conversions(self._hours, target, first, behind, Sample())
        delays = np.full(len(conversions), np.nan)
        wanted = {CLICK_ID, CLICKED_AT, SCORE + target}
        listing = self._hours.list_days(partitions_between(CLICKS, first - reach, behind))
        for parts in reversed([*listing.values()]):
            for table in self._hours.read(parts, wanted.__contains__).tables:
                if SCORE + target not in table.schema.names:
                    continue
                scored = table.filter(pc.is_valid(table[SCORE + target]))
                rows = conversions.rows_among(scored[CLICK_ID])
                met, clicked_at = rows >= 0, scored[CLICKED_AT].to_numpy()
                delays[met] = conversions.converted_at[met] - clicked_at[rows[met]]
        return UnattributedConversions(
            conversions=len(conversions),
            orphans=int(np.isnan(delays).sum()),
            early=int((delays < 0.0).sum()),
            late=int((delays >= window).sum()),
        )


class ClickLog(ClickReader):
    """The log in a folder. Raises ClickLogUnavailable when the store is away."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._store = PartStore(folder)
        super().__init__(self._store)

    @classmethod
    def open(cls, url: str) -> Self:
        """The log in a folder or at a URL; it need not be there yet."""
        return cls(Folder.open(url))

    @property
    def identity(self) -> str | None:
        """What tells this log from every other, once `identify` has given it."""
        # Read each time: a folder that is lost or swapped while a worker runs is another log.
        found = self._folder.read(_ID)
        return None if found is None else found.decode(errors="replace")

    def identify(self, new: str) -> str:
        """The log's id: a new one where it has none yet."""
        if not self.identity:
            self._folder.write(_ID, new.encode())
        return self.identity or new

    def write_clicks(self, clicks: Iterable[ClosedClick]) -> None:
        """Durable on return. Writing them again, in other batches too, changes nothing."""
        self._write(CLICKS, clicks, lambda click: click.clicked_at, click_rows)

    def write_conversions(self, conversions: Iterable[StoredConversion]) -> None:
        """Durable on return. Writing them again, in other batches too, changes nothing."""
        self._write(CONVERSIONS, conversions, lambda one: one.occurred_at, conversion_rows)

    def compact(self, before: float) -> int:
        """Make one part of the many of each hour that is over by then; returns how many hours.

        Those with a final part are left to `finalise`, which rewrites them anyway.
        """
        listings = [self._store.list(dataset) for dataset in DATASETS]
        scattered = [
            parts
            for listing in listings
            for partition, parts in listing.items()
            if partition.ends <= before and len(parts) > 1 and parts[0].kind != FINAL
        ]
        for parts in scattered:
            contents = self._store.read(parts)
            if contents.parts:
                self._store.replace(contents.parts, COMPACT, _merged(contents))
        return len(scattered)

    def finalise(self, windows: Windows, as_of: float) -> int:
        """Write conversions into the rows of hours whose attribution windows are over.

        `windows` are seconds by target: an hour is due when the window of its last click is over.
        Parts that come later are finalised the next time. Returns how many hours were written.
        """
        due = {
            partition: parts
            for partition, parts in self._store.list(CLICKS).items()
            if (over := _matured(partition, windows, as_of)) and not _is_final(parts, over)
        }
        for batch in _batches(sorted(due)):
            conversions = _conversions(self._store, batch, windows)
            for partition in batch:
                over = _matured(partition, windows, as_of)
                _finalise(self._store, self._store.read(due[partition]), over, conversions)
        return len(due)

    def expire(self, before: float) -> int:
        """Delete every hour that is over by then, quarantined parts too; returns how many."""
        expired = 0
        for prefix, dataset in product(_PREFIXES, DATASETS):
            over = _over(self._folder, prefix + dataset, before)
            # The folder of the whole day, once nobody writes into it any more.
            for path in sorted({p.date_path if p.day_ends <= before else p.path for p in over}):
                self._folder.delete_folder(prefix + path)
            expired += len(over)
        return expired

    def clicks_by_hour(self, first: float, behind: float) -> dict[int, int]:
        """Rows of each hour (since 1970) of [first, behind) that has any, of all targets."""
        found = self._store.list(CLICKS).items()
        within = ((one.hour, p) for one, p in found if first < one.ends and one.begins < behind)
        return {hour: sum(part.rows for part in parts) for hour, parts in within}

    def damaged(self) -> int:
        """How many damaged parts are kept in quarantine."""
        entries = self._folder.entries(QUARANTINE)
        return sum(entry.size is not None for entry in entries)

    def _write(
        self,
        dataset: str,
        rows: Iterable[Row],
        time_of: Callable[[Row], float],
        table_of: Callable[[Sequence[Row]], Any],
    ) -> None:
        by_hour = defaultdict(list)
        for row in rows:
            by_hour[Partition.at(dataset, time_of(row))].append(row)
        for partition in sorted(by_hour):
            self._store.write(partition, PART, table_of(by_hour[partition]))


def _merged(contents: Contents) -> Any:
    """The partition's rows in reading order, each click or conversion once."""
    table = stacked(contents.tables)
    if contents.parts[0].partition.dataset == CLICKS:
        return distinct_clicks(table)[0]
    return distinct_conversions(table)


def _finalise(
    store: PartStore, contents: Contents, windows: Windows, logged: Mapping[str, LoggedConversions]
) -> None:
    if not contents.parts:
        return
    table = _merged(contents)
    for target, window in windows.items():
        own = LoggedConversions.of([final_conversions(old, target) for old in contents.tables])
        times = _first_times(table, logged[target].with_others(own), window)
        name = CONVERTED_AT + target
        if name in table.schema.names:
            table = table.drop_columns([name])
        table = table.append_column(name, pa.array(times, mask=np.isnan(times)))
    table = table.select(sorted(table.schema.names))
    store.replace(contents.parts, FINAL, table, _mark(windows))


def _first_times(table: Any, conversions: LoggedConversions, window: float) -> Floats:
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


def _matured(partition: Partition, windows: Windows, as_of: float) -> Windows:
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
