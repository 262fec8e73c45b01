"""What each API process last said of itself, where all of them and their parent can read it.

A record has a checksum: one that was being written, or whose writer died over it, is not read.
"""

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from math import isnan, nan
from typing import Final, NamedTuple, Self
from zlib import crc32

_HEAD: Final = 64
# Process id, open connections, whether it serves, whether its store answers, time of publish (NaN
# for none), version.
_RECORD: Final = struct.Struct("<IIBBd80s")
_CHECKSUM: Final = struct.Struct("<I")
_BYTES: Final = 128
_TRIES: Final = 5


class Record(NamedTuple):
    """One process: what it serves since when, and whether it takes requests."""

    process: int
    connections: int
    serving: bool
    store_up: bool
    published_at: float | None
    version: str


class WorkerRecords:
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

    def write(self, row: int, record: Record) -> None:
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

    def read(self, row: int) -> Record | None:
        """What the process of the row last said; None if there is none."""
        for _ in range(_TRIES):
            start = _start(row)
            packed = self._memory[start : start + _RECORD.size]
            (checksum,) = _CHECKSUM.unpack_from(self._memory, start + _RECORD.size)
            if crc32(packed) == checksum:
                return _record(packed)
        return None

    def live(self) -> Iterator[tuple[int, Record]]:
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


def _record(packed: bytes) -> Record:
    process, connections, serving, store_up, published_at, version = _RECORD.unpack(packed)
    since = None if isnan(published_at) else published_at
    standing = (bool(serving), bool(store_up), since)
    return Record(process, connections, *standing, version.rstrip(b"\0").decode())
