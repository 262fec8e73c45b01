"""What each API process says of itself, in a table that all of them and their parent can read, and
the gauges over all processes that `/metrics` makes of it.

A process has a worker slot: the row of the table and of the shared counters that only it writes. A
record has a checksum: one that was being written, or whose writer died over it, is not read.
"""

import gc
import mmap
import os
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import isnan, nan
from typing import Final, NamedTuple, Self
from zlib import crc32

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.api.metrics.counters import COLLECTED, MetricLayout, SharedCounters, gauge, single
from app.api.snapshot import Refresher

_HEAD: Final = 64
# Process id, open connections, whether it serves, whether its store answers, time of publish (NaN
# for none), version.
_RECORD: Final = struct.Struct("<IIBBd80s")
_CHECKSUM: Final = struct.Struct("<I")
_BYTES: Final = 128
_TRIES: Final = 5


class WorkerRecord(NamedTuple):
    """One process: what it serves since when, and whether it takes requests."""

    process: int
    connections: int
    serving: bool
    store_up: bool
    published_at: float | None
    version: str


class WorkerTable:
    """A record per row, and whether all of them are about to end."""

    def __init__(self, memory: mmap.mmap, rows: int) -> None:
        self._memory = memory
        self.rows = rows

    @classmethod
    def alone(cls) -> Self:
        """One row in memory of our own."""
        return cls(mmap.mmap(-1, _HEAD + _BYTES), 1)

    @classmethod
    def shared(cls, file: int, rows: int) -> Self:
        """The rows at the beginning of an open file."""
        return cls(mmap.mmap(file, size_of(rows)), rows)

    @property
    def draining(self) -> bool:
        """Whether the service is about to end, so that balancers should look elsewhere."""
        return self._memory[0] != 0

    def drain(self) -> None:
        """From now on the service is about to end."""
        self._memory[0] = 1

    def write(self, row: int, record: WorkerRecord) -> None:
        """Replace the record of the row."""
        published_at = nan if record.published_at is None else record.published_at
        packed = _RECORD.pack(*record[:4], published_at, record.version.encode())
        checked = packed + _CHECKSUM.pack(crc32(packed))
        start = _start(row)
        self._memory[start : start + len(checked)] = checked

    def clear(self, row: int) -> None:
        """The process of the row is gone, and its record with it."""
        # Zeros have another checksum than zero.
        start = _start(row)
        self._memory[start : start + _BYTES] = bytes(_BYTES)

    def read(self, row: int) -> WorkerRecord | None:
        """The record of the row; None if it has no process."""
        for _ in range(_TRIES):
            start = _start(row)
            packed = self._memory[start : start + _RECORD.size]
            (checksum,) = _CHECKSUM.unpack_from(self._memory, start + _RECORD.size)
            if crc32(packed) == checksum:
                return _unpacked(packed)
        return None

    def live(self) -> Iterator[tuple[int, WorkerRecord]]:
        """Rows that have a process, and its record."""
        for row in range(self.rows):
            record = self.read(row)
            if record is not None:
                yield row, record


def new_file(rows: int) -> int:
    """A file of no records yet; it is in memory where the system has such, and has no name.

    On a disk, writing pages back could hold up whoever counts.
    """
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("sirocco-workers")
    else:
        with tempfile.TemporaryFile() as named:
            file = os.dup(named.fileno())
    os.ftruncate(file, size_of(rows))
    return file


def size_of(rows: int) -> int:
    """Bytes of so many records in a file: whole pages, so that others can map what follows."""
    page = mmap.ALLOCATIONGRANULARITY
    return -(-(_HEAD + rows * _BYTES) // page) * page


def _start(row: int) -> int:
    return _HEAD + row * _BYTES


def _unpacked(packed: bytes) -> WorkerRecord:
    process, connections, serving, store_up, at, version = _RECORD.unpack(packed)
    flags = bool(serving), bool(store_up)
    text = version.rstrip(b"\0").decode()
    return WorkerRecord(process, connections, *flags, None if isnan(at) else at, text)


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """The row that only this process writes; `file` holds all rows, None for a lone process."""

    table: WorkerTable
    row: int = 0
    file: int | None = None

    @classmethod
    def alone(cls) -> Self:
        """Of a process that shares nothing."""
        return cls(WorkerTable.alone())

    @classmethod
    def shared(cls, file: int, rows: int, row: int) -> Self:
        """Of one of several processes."""
        return cls(WorkerTable.shared(file, rows), row, file)

    def counters(self, layout: MetricLayout) -> SharedCounters:
        """The counts of all processes; raises LayoutsDiffer."""
        if self.file is None:
            return SharedCounters.alone(layout)
        rows = self.table.rows
        return SharedCounters.shared(self.file, size_of(rows), rows, layout)


class WorkerStatus(Collector):
    """Of the process in the slot, and of all beside it; `serving` says whether it takes requests.

    `row` is its row of the shared counters.
    """

    def __init__(
        self, slot: WorkerSlot, refresher: Refresher, layout: MetricLayout, row: "memoryview[float]"
    ) -> None:
        self.serving = False
        self.table = slot.table
        self._slot = slot
        self._refresher = refresher
        self._row = row
        self._connections = layout.connections
        counts = layout.refused_versions, layout.last_good_failures
        self._carried: Final = (*counts, *layout.garbage.values())
        # What those before us in this row came to.
        self._before = [self._row[at] for at in self._carried]

    @property
    def is_alone(self) -> bool:
        """Whether the process has no parent that starts others beside it."""
        return self._slot.file is None

    @property
    def may_serve(self) -> bool:
        """Whether to take requests: not without a version while others have one to serve."""
        others = (record for row, record in self.table.live() if row != self._slot.row)
        return self._refresher.may_serve or not any(record.serving for record in others)

    def update(self) -> None:
        """Write how things stand now."""
        snapshot = self._refresher.current
        connections = int(self._row[self._connections])
        state = (os.getpid(), connections, self.serving, self._refresher.store_takes_writes)
        record = WorkerRecord(*state, snapshot.published_at, snapshot.version)
        self.table.write(self._slot.row, record)
        garbage = ([stats[kind] for stats in gc.get_stats()] for kind in COLLECTED)
        last_good = self._refresher.last_good
        failures = 0 if last_good is None else last_good.failures
        counted = chain([self._refresher.refused_versions, failures], *garbage)
        for at, before, now in zip(self._carried, self._before, counted, strict=True):
            self._row[at] = before + now

    def collect(self) -> Iterator[Metric]:
        """All gauges; whichever process is scraped gives the same."""
        self.update()
        live = dict(self.table.live())
        yield from _process_families(live, labelled=not self.is_alone)
        serving = [record for record in live.values() if record.serving]
        yield single("workers", "API processes that serve now.", len(serving))
        text = "API processes that serve the version."
        versions = sorted(Counter(record.version for record in serving).items())
        samples = [([version], number) for version, number in versions]
        yield gauge("sirocco_workers_serving", text, ["version"], samples)
        connections = sum(record.connections for record in live.values())
        yield single("connections", "Open connections.", connections)
        # One that still starts or already drains is counted only where no other is left.
        yield from _in_force(serving or list(live.values()), time.time())


def _in_force(records: list[WorkerRecord], now: float) -> Iterator[Metric]:
    up = min(record.store_up for record in records)
    yield single("store_up", "Whether the store takes writes.", up)
    versions = sorted({record.version for record in records})
    samples = [([version], 1) for version in versions]
    yield gauge("sirocco_map_version_info", "Version in force.", ["version"], samples)
    since = [record.published_at for record in records if record.published_at is not None]
    age = max(0.0, now - min(since)) if since else None
    yield single("map_age_seconds", "Since the version's publish.", age)


def _process_families(live: dict[int, WorkerRecord], *, labelled: bool) -> Iterator[Metric]:
    families: dict[str, Metric] = {}
    for row, record in live.items():
        labels = {"worker": str(row)} if labelled else {}
        for found in ProcessCollector(pid=partial(int, record.process), registry=None).collect():
            empty = Metric(found.name, found.documentation, found.type)
            family = families.setdefault(found.name, empty)
            for sample in found.samples:
                family.add_sample(sample.name, labels, sample.value)
    yield from families.values()
