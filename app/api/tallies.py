"""Rows of counts in one piece of memory: each process adds to its own row, anyone sums them all.

No two processes add to the same number, which would lose counts. A row outlives its process: the
successor goes on from there, so that no sum ever falls.
"""

import fcntl
import mmap
import os
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.api.slots import Slots

# Whose slots the rows have, and nothing else: rows begin on a cache line of their own.
_HEAD: Final = 64
_NUMBER: Final = 8


class SlotsDiffer(ValueError):
    """The rows were begun by processes whose series have other places."""

    def __init__(self) -> None:
        super().__init__(
            "the metrics of the running processes have other series than those of this code and"
            " these settings: stop sirocco and start it again"
        )


class Tallies:
    """`rows` rows of float64, each with the places of `slots`."""

    def __init__(self, memory: mmap.mmap, rows: int, slots: Slots) -> None:
        self._memory = memory
        self._rows, self._size = rows, slots.size

    @classmethod
    def alone(cls, slots: Slots) -> Self:
        """One row in memory of our own."""
        return cls(mmap.mmap(-1, _HEAD + _NUMBER * slots.size), 1, slots)

    @classmethod
    def shared(cls, file: int, offset: int, rows: int, slots: Slots) -> Self:
        """The rows behind `offset` of an open file, which the first process gives its length.

        Raises SlotsDiffer.
        """
        length = _HEAD + _NUMBER * slots.size * rows
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            memory = _begun(file, offset, length, slots.digest)
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
        return cls(memory, rows, slots)

    def row(self, row: int) -> "memoryview[float]":
        """The numbers of one row, to be added to by one thread of one process."""
        numbers = memoryview(self._memory)[_HEAD:].cast("d")
        return numbers[row * self._size : (row + 1) * self._size]

    def total(self) -> NDArray[np.float64]:
        """The sum of all rows."""
        number = self._rows * self._size
        numbers = np.frombuffer(self._memory, np.float64, number, offset=_HEAD)
        total: NDArray[np.float64] = numbers.reshape(self._rows, self._size).sum(axis=0)
        return total


def _begun(file: int, offset: int, length: int, digest: bytes) -> mmap.mmap:
    size = os.fstat(file).st_size
    if size not in (offset, offset + length):
        raise SlotsDiffer
    os.ftruncate(file, offset + length)
    memory = mmap.mmap(file, length, offset=offset)
    if size == offset:
        memory[: len(digest)] = digest
    if memory[: len(digest)] != digest:
        raise SlotsDiffer
    return memory
