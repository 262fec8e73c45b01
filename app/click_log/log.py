"""The click log: closed clicks and conversions in Parquet, on this machine or in an object store.

Any number of processes may read and write. One compacts, finalises and expires at a time, as the
worker's lease has it. Where two write the same rows these may stand twice, and are read once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, nextafter
from typing import Any, Self, TypeVar

import numpy as np

from app.click_log.clicks import LoggedClicks, LoggedConversions
from app.click_log.folder import Folder
from app.click_log.maintenance import UnattributedConversions, compact, count_unattributed, finalise
from app.click_log.parts import CLICKS, CONVERSIONS, DATASETS, PART, QUARANTINE, Partition
from app.click_log.reading import Sample, StoredHours, read_clicks, read_conversions, read_values
from app.click_log.rows import ClosedClick, click_rows, conversion_rows
from app.click_log.store import PartStore
from app.storage.blocks import StoredConversion
from calibrators.samples import Floats
from pccem import Attribution, attribute


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


@dataclass(frozen=True, slots=True)
class DatasetSize:
    """How much is stored; `rows` counts a row that stands twice as two."""

    rows: int
    parts: int
    size: int


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

        Clicks are looked for from `reach` seconds before the first of them.
        """
        return count_unattributed(self._hours, target, first, behind, window=window, reach=reach)


class ClickLog(ClickReader):
    """The log in a folder. Raises ClickLogUnavailable when the store is away."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._identity: str | None = None
        self._store = PartStore(folder)
        super().__init__(self._store)

    @classmethod
    def open(cls, url: str) -> Self:
        """The log in a folder or at a URL; it need not be there yet."""
        return cls(Folder.open(url))

    @property
    def identity(self) -> str | None:
        """What tells this log from every other, once `identify` has given it."""
        if self._identity is None and (found := self._folder.read(_ID)) is not None:
            self._identity = found.decode(errors="replace")
        return self._identity

    def identify(self, new: str) -> str:
        """The log's id: a new one where it has none yet."""
        if not self.identity:
            self._folder.write(_ID, new.encode())
            self._identity = None
        return self.identity or new

    def write_clicks(self, clicks: Iterable[ClosedClick]) -> None:
        """Durable on return. Writing them again, in other batches too, changes nothing."""
        self._write(CLICKS, clicks, lambda click: click.clicked_at, click_rows)

    def write_conversions(self, conversions: Iterable[StoredConversion]) -> None:
        """Durable on return. Writing them again, in other batches too, changes nothing."""
        self._write(CONVERSIONS, conversions, lambda one: one.occurred_at, conversion_rows)

    def compact(self, before: float) -> int:
        """Make one part of the many of each hour that is over by then; returns how many hours."""
        return compact(self._store, before)

    def finalise(self, windows: Mapping[str, float], as_of: float) -> int:
        """Write conversions into the rows of hours whose attribution windows are over.

        `windows` are seconds by target. Returns how many hours were written.
        """
        return finalise(self._store, windows, as_of)

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

    def sizes(self) -> dict[str, DatasetSize]:
        """What is stored of `clicks` and of `conversions`."""
        return {dataset: self._size(dataset) for dataset in (CLICKS, CONVERSIONS)}

    def clicks_by_hour(self, first: float, behind: float) -> dict[int, int]:
        """Rows of each hour (since 1970) of [first, behind) that has any, of all targets."""
        found = self._store.list(CLICKS).items()
        within = ((one.hour, p) for one, p in found if first < one.ends and one.begins < behind)
        return {hour: sum(part.rows for part in parts) for hour, parts in within}

    def damaged(self) -> int:
        """How many damaged parts are kept in quarantine."""
        return self._store.quarantined()

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

    def _size(self, dataset: str) -> DatasetSize:
        parts = [part for listed in self._store.list(dataset).values() for part in listed]
        return DatasetSize(
            sum(part.rows for part in parts), len(parts), sum(part.size for part in parts)
        )
