"""Records of processes: read whole or not at all."""

import mmap
import os

from hypothesis import given
from hypothesis import strategies as st

from app.api.metrics.workers import WorkerRecord, WorkerTable, new_file, size_of

SERVING = WorkerRecord(4711, 12, True, True, 1_767_225_600.25, "000007-0123abcd")
# A record of 98 bytes and its checksum.
RECORD_BYTES = 102
STARTING = WorkerRecord(4712, 0, False, False, None, "none")


def records_of(rows: int) -> tuple[WorkerTable, mmap.mmap]:
    """Records in a file, and the bytes of it."""
    file = new_file(rows)
    try:
        return WorkerTable.shared(file, rows), mmap.mmap(file, size_of(rows))
    finally:
        os.close(file)


def test_what_is_written_is_read():
    records, _ = records_of(3)

    records.write(0, SERVING)
    records.write(2, STARTING)

    assert dict(records.live()) == {0: SERVING, 2: STARTING}


def test_a_cleared_row_has_no_process():
    records, _ = records_of(2)
    records.write(0, SERVING)
    records.write(1, STARTING)

    records.clear(0)

    assert dict(records.live()) == {1: STARTING}


@given(st.integers(0, RECORD_BYTES - 1), st.integers(1, 255))
def test_half_a_record_is_none(place, change):
    """Whoever dies while writing leaves bytes that do not fit together."""
    records, memory = records_of(1)
    records.write(0, SERVING)
    start = memory.find(SERVING.process.to_bytes(4, "little"))

    memory[start + place] ^= change
    damaged = records.read(0)
    memory[start + place] ^= change

    assert (damaged, records.read(0)) == (None, SERVING)


def test_everyone_sees_that_the_end_is_near():
    file = new_file(2)
    one, other = (WorkerTable.shared(file, 2) for _ in range(2))
    os.close(file)
    before = other.draining

    one.drain()

    assert (before, other.draining) == (False, True)


def test_a_system_without_files_in_memory_has_others(monkeypatch):
    """One that has no name, so that nothing is left of it."""
    monkeypatch.delattr(os, "memfd_create")
    file = new_file(2)
    WorkerTable.shared(file, 2).write(1, SERVING)

    names, read = os.fstat(file).st_nlink, WorkerTable.shared(file, 2).read(1)
    os.close(file)

    assert (names, read) == (0, SERVING)
