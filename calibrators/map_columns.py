"""Calibration maps of many campaigns end to end, as the atlas holds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.samples import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class MapColumns:
    """Knots of each map, (c,), at least 2; knots and values of all maps end to end, (k,) each.

    Not checked: the atlas does that.
    """

    lengths: Integers
    knots: Floats
    values: Floats

    @classmethod
    def of_maps(cls, maps: Sequence[CalibrationMap]) -> Self:
        """The columns of maps."""
        return cls(
            np.array([len(each.knots) for each in maps], np.int64),
            np.concatenate([np.empty(0), *(each.knots for each in maps)]),
            np.concatenate([np.empty(0), *(each.values for each in maps)]),
        )

    @classmethod
    def end_to_end(cls, parts: Sequence["MapColumns"]) -> Self:
        """The maps of all parts, one part behind the other."""
        return cls(
            np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)]),
            np.concatenate([np.empty(0), *(part.knots for part in parts)]),
            np.concatenate([np.empty(0), *(part.values for part in parts)]),
        )

    def taken(self, order: Integers) -> "MapColumns":
        """These maps, (n,), in this order; a view where they are neighbours."""
        if len(order) and (np.diff(order) == 1).all():
            return self.run(int(order[0]), int(order[-1]) + 1)
        starts = np.cumsum(self.lengths) - self.lengths
        lengths = self.lengths[order]
        shifts = starts[order] - (np.cumsum(lengths) - lengths)
        places = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        return MapColumns(lengths, self.knots[places], self.values[places])

    def run(self, first: int, behind: int) -> "MapColumns":
        """A view of the maps of first <= number < behind."""
        start = int(self.lengths[:first].sum())
        lengths = self.lengths[first:behind]
        span = slice(start, start + int(lengths.sum()))
        return MapColumns(lengths, self.knots[span], self.values[span])

    def __len__(self) -> int:
        return len(self.lengths)
