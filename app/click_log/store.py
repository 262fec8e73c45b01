"""The parts in a folder: write, list and read them, and put damaged ones aside."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from app.click_log.folder import ClickLogUnavailable, DamagedPart, Folder
from app.click_log.parts import (
    QUARANTINE,
    Part,
    Partition,
    Wanted,
    decode_part,
    digest_of,
    encode_part,
    everything,
)

_ATTEMPTS = 10

_log = logging.getLogger(__name__)

Listing = dict[Partition, list[Part]]


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What a partition held: its readable parts in reading order, and the table of each."""

    parts: list[Part]
    tables: list[Any]


class PartStore:
    """The parts in a folder. What is returned as written is durable."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def write(self, partition: Partition, kind: str, table: Any, mark: str = "") -> Part:
        """Write the rows as one part; the same rows make the same part."""
        data = encode_part(table)
        part = Part.of(partition, kind, data, len(table), mark)
        self._folder.write(part.path, data)
        return part

    def replace(self, old: Sequence[Part], kind: str, table: Any, mark: str = "") -> None:
        """Write all rows of the old parts as one part, then delete the old ones.

        Whoever stops in between leaves rows twice, and readers count them once.
        """
        new = self.write(old[0].partition, kind, table, mark)
        for part in old:
            if part.path != new.path:
                self._folder.delete(part.path)

    def list(self, path: str) -> Listing:
        """The parts below a path, by partition, oldest first; of each in reading order."""
        found: Listing = defaultdict(list)
        for entry in self._folder.entries(path):
            part = None if entry.size is None else Part.of_path(entry.path)
            if part is not None:
                found[part.partition].append(part)
        return {one: sorted(found[one], key=attrgetter("order")) for one in sorted(found)}

    def list_days(self, partitions: Sequence[Partition]) -> Listing:
        """The parts of these partitions, with one listing per day."""
        wanted = set(partitions)
        days = dict.fromkeys(partition.date_path for partition in partitions)
        found = (pair for day in days for pair in self.list(day).items())
        return {partition: parts for partition, parts in found if partition in wanted}

    def read(self, parts: Sequence[Part], wanted: Wanted = everything) -> Contents:
        """The listed parts of one partition, without those found damaged.

        Should another process have replaced one meanwhile, the partition is listed again.
        """
        for _ in range(_ATTEMPTS):
            contents = self._read_listed(parts, wanted)
            if contents is not None:
                return contents
            partition = parts[0].partition
            parts = self.list(partition.path).get(partition, [])
            if not parts:
                return Contents([], [])
        raise ClickLogUnavailable(f"{parts[0].partition.path} changes faster than it is read")

    def _read_listed(self, parts: Sequence[Part], wanted: Wanted) -> Contents | None:
        contents = Contents([], [])
        for part in parts:
            data = self._folder.read(part.path)
            if data is None:
                return None
            try:
                table = _opened(part, data, wanted)
            except DamagedPart as error:
                _log.error("%s is damaged, its rows are left out: %s", part.path, error)
                self._folder.move(part.path, f"{QUARANTINE}/{part.path}")
                continue
            contents.parts.append(part)
            contents.tables.append(table)
        return contents


def _opened(part: Part, data: bytes, wanted: Wanted) -> Any:
    # The digest comes first: a reader of Parquet must never see bytes that nobody wrote.
    if digest_of(data) != part.digest:
        raise DamagedPart(f"{len(data)} bytes whose digest is not that of the name")
    table = decode_part(data, part.partition.dataset, wanted)
    if len(table) != part.rows:
        raise DamagedPart(f"{len(table)} rows, not the {part.rows} of the name")
    return table
