"""The cells of a block of campaigns hour by hour: sums over hours, and sums over cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrators.pooled.packed_entries import PackedEntries
from calibrators.samples import Floats, Integers


def sums_by(places: NDArray[np.integer[Any]], amounts: Floats, size: int) -> Floats:
    """The sum of the amounts, (n,), that belong to each of `size` places."""
    return np.bincount(places, amounts, size).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class CellHours:
    """What m cells of c campaigns hold in each hour of a window, unpacked while it is summed.

    Attributes
    ----------
    sizes : cells of each campaign, (c,); the first campaign's come first.
    entries : one for each cell and hour that hold samples.
    """

    sizes: Integers
    entries: PackedEntries

    @property
    def shape(self) -> tuple[int, int]:
        """Campaigns and hours, c and h."""
        return len(self.sizes), len(self.entries.lengths)

    @property
    def rows(self) -> Integers:
        """The campaign of each cell, ascending, (m,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def weighted(self, weights: Floats) -> tuple[Floats, Floats]:
        """Samples and positives of each cell, (m,), with weights by campaign and hour, (c, h)."""
        held, rows = self.entries.unpacked(), self.rows
        factor = weights[rows[held.places], held.hours]
        counts = sums_by(held.places, held.counts * factor, len(rows))
        return counts, sums_by(held.places, held.positives * factor, len(rows))

    def expected(self, probabilities: Floats) -> Floats:
        """Positives by campaign and hour, (c, h), given the probability of each cell, (m,)."""
        held = self.entries.unpacked()
        return self._by_hour(held.places, held.hours, held.counts * probabilities[held.places])

    def observed(self) -> Floats:
        """Positives that were seen, by campaign and hour, (c, h)."""
        held = self.entries.unpacked()
        return self._by_hour(held.places, held.hours, held.positives)

    def _by_hour(self, places: Integers, hours: Integers, amounts: Floats) -> Floats:
        campaigns, length = self.shape
        keys = self.rows[places] * length + hours
        return sums_by(keys, amounts, campaigns * length).reshape(self.shape)
