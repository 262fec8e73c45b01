"""What a block's cells hold hour by hour, packed: kept from one look at it to the next."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers

Number = TypeVar("Number", np.int64, np.float64)

_LARGEST = 255


class Entries(NamedTuple):
    """Of one cell in one hour each, hour by hour, the oldest first.

    Attributes
    ----------
    places, hours : the cell, and the hour of the window, counted from 0, (e,).
    counts, positives : samples, and positives of these, (e,).
    """

    places: Integers
    hours: Integers
    counts: Floats
    positives: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ByteColumn(Generic[Number]):
    """Numbers, (e,), a byte each; those that are not whole or need more than a byte stand apart,
    with their places. Nothing is lost."""

    bytes: NDArray[np.uint8]
    places: NDArray[np.int32]
    others: NDArray[Number]

    @classmethod
    def of(cls, values: NDArray[Number]) -> Self:
        """The column of these values."""
        narrow = np.clip(values, 0, _LARGEST).astype(np.uint8)
        places = np.flatnonzero(narrow != values)
        return cls(narrow, places.astype(np.int32), values[places])

    def values(self) -> NDArray[Number]:
        """The same values again."""
        found = self.bytes.astype(self.others.dtype)
        found[self.places] = self.others
        return found


@dataclass(frozen=True, slots=True, eq=False)
class PackedEntries:
    """Entries in about three bytes each instead of 32: most cells hold few samples in an hour, and
    most steps from a cell to the next that holds any are short.

    Attributes
    ----------
    lengths : entries of each hour of the window, (h,).
    steps : from the place of each entry's cell to that of the next.
    """

    lengths: Integers
    steps: ByteColumn[np.int64]
    counts: ByteColumn[np.float64]
    positives: ByteColumn[np.float64]

    @classmethod
    def of(cls, entries: Entries, hours: int) -> Self:
        """Packs the entries of a window of so many hours."""
        return cls(
            np.bincount(entries.hours, minlength=hours),
            ByteColumn.of(np.diff(entries.places, prepend=0)),
            ByteColumn.of(entries.counts),
            ByteColumn.of(entries.positives),
        )

    def unpacked(self) -> Entries:
        """The same entries again."""
        return Entries(
            np.cumsum(self.steps.values()),
            np.repeat(np.arange(len(self.lengths)), self.lengths),
            self.counts.values(),
            self.positives.values(),
        )
