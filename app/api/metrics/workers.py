"""What the process says of itself to the others, so that each can answer for all of them.

What each API process last said of itself, where all of them and their parent can read it.

A record has a checksum: one that was being written, or whose writer died over it, is not read.
Gauges over all API processes: what they serve, and what they use of the machine.
Where a process counts: alone, or in its row of a file that API processes share.
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
from itertools import chain
from math import isnan, nan
from typing import Final, NamedTuple, Self
from zlib import crc32

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.metrics.counters import COLLECTED, MetricLayout, SharedCounters
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
        """The process of the row is gone, and what it last said with it."""
        # Zeros have another checksum than zero.
        start = _start(row)
        self._memory[start : start + _BYTES] = bytes(_BYTES)

    def read(self, row: int) -> WorkerRecord | None:
        """What the process of the row last said; None if there is none."""
        for _ in range(_TRIES):
            start = _start(row)
            packed = self._memory[start : start + _RECORD.size]
            (checksum,) = _CHECKSUM.unpack_from(self._memory, start + _RECORD.size)
            if crc32(packed) == checksum:
                return _record(packed)
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


def _record(packed: bytes) -> WorkerRecord:
    process, connections, serving, store_up, published_at, version = _RECORD.unpack(packed)
    since = None if isnan(published_at) else published_at
    standing = (bool(serving), bool(store_up), since)
    return WorkerRecord(process, connections, *standing, version.rstrip(b"\0").decode())


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """The row that only this process writes; `file` holds all rows, None for a lone process."""

    records: WorkerTable
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

    def tallies(self, slots: MetricLayout) -> SharedCounters:
        """The counts of all processes; raises LayoutsDiffer."""
        if self.file is None:
            return SharedCounters.alone(slots)
        return SharedCounters.shared(
            self.file, size_of(self.records.rows), self.records.rows, slots
        )

    @property
    def others_serve(self) -> bool:
        """Whether another process takes requests now, with a version or the certainty of none."""
        return any(record.serving for row, record in self.records.live() if row != self.row)


class WorkerStatus:
    """Of the process at `place` and its row; `serving` says whether it takes requests now."""

    def __init__(
        self, place: WorkerSlot, refresher: Refresher, slots: MetricLayout, row: "memoryview[float]"
    ) -> None:
        self.serving = False
        self._place = place
        self._refresher = refresher
        self._row = row
        self._connections = slots.connections
        self._carried: Final = (slots.refused_versions, *slots.garbage.values())
        # What those before us in this row came to.
        self._before = [self._row[at] for at in self._carried]

    @property
    def records(self) -> WorkerTable:
        """What all processes said of themselves."""
        return self._place.records

    @property
    def is_alone(self) -> bool:
        """Whether the process has no parent that starts others beside it."""
        return self._place.file is None

    @property
    def may_serve(self) -> bool:
        """Whether to take requests: not without a version while others have one to serve."""
        return self._refresher.store_seen or not self._place.others_serve

    def tell(self) -> None:
        """Say how things stand now."""
        snapshot = self._refresher.current
        connections = int(self._row[self._connections])
        standing = (os.getpid(), connections, self.serving, self._refresher.store_up)
        record = WorkerRecord(*standing, snapshot.published_at, snapshot.version)
        self.records.write(self._place.row, record)
        for at, before, now in zip(self._carried, self._before, self._counted(), strict=True):
            self._row[at] = before + now

    def _counted(self) -> Iterator[int]:
        collected = gc.get_stats()
        by_kind = ([stats[kind] for stats in collected] for kind in COLLECTED)
        return chain([self._refresher.refused_versions], *by_kind)


class WorkerCollector(Collector):
    """Reads what every live process last said; the one that answers says it anew first."""

    def __init__(self, presence: WorkerStatus) -> None:
        self._presence = presence

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families; whichever process is asked says the same."""
        self._presence.tell()
        live = dict(self._presence.records.live())
        yield from _processes(live, labelled=not self._presence.is_alone)
        serving = [record for record in live.values() if record.serving]
        yield _gauge("sirocco_workers", "API processes that serve now.", len(serving))
        yield _by_version(serving)
        connections = sum(record.connections for record in live.values())
        yield _gauge("sirocco_connections", "Open connections.", connections)
        # One that still starts or already drains is judged only where no other is left.
        yield from _in_force(serving or list(live.values()), time.time())


def _by_version(serving: list[WorkerRecord]) -> Metric:
    family = GaugeMetricFamily(
        "sirocco_workers_serving", "API processes that serve the version.", labels=["version"]
    )
    for version, number in sorted(Counter(record.version for record in serving).items()):
        family.add_metric([version], number)
    return family


def _in_force(records: list[WorkerRecord], now: float) -> Iterator[Metric]:
    up = min(record.store_up for record in records)
    yield _gauge("sirocco_store_up", "Whether the store answers.", up)
    info = GaugeMetricFamily("sirocco_map_version_info", "Version in force.", labels=["version"])
    for version in sorted({record.version for record in records}):
        info.add_metric([version], 1)
    yield info
    age = GaugeMetricFamily("sirocco_map_age_seconds", "Since the version's publish.")
    since = [record.published_at for record in records if record.published_at is not None]
    if since:
        age.add_metric([], max(0.0, now - min(since)))
    yield age


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, float(value))


def _processes(live: dict[int, WorkerRecord], *, labelled: bool) -> Iterator[Metric]:
    families: dict[str, Metric] = {}
    for row, record in live.items():
        labels = {"worker": str(row)} if labelled else {}
        for found in _process(record.process):
            empty = Metric(found.name, found.documentation, found.type)
            family = families.setdefault(found.name, empty)
            for sample in found.samples:
                family.add_sample(sample.name, labels, sample.value)
    yield from families.values()


def _process(process: int) -> list[Metric]:
    return list(ProcessCollector(pid=lambda: process, registry=None).collect())
