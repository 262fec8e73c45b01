"""A batch of a log: some of its rows, checked, with the slices that each belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats
from evaluation.compact.slice_order import SliceCodes


@dataclass(frozen=True, slots=True, eq=False)
class LogBatch:
    """Rows of a log; columns of shape (n,).

    Attributes
    ----------
    scores, outcomes : in [0, 1]; the caller has checked them.
    bids : finite and at least 0, or None where the log has none.
    slices : for each cut of the log, the code of the slice that a row belongs to, or -1 for none;
        None where all rows are slice 0.
    """

    scores: Floats
    outcomes: Floats
    bids: Floats | None
    slices: Mapping[str, SliceCodes | None]

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def classes(self) -> NDArray[np.bool_] | None:
        """The outcomes as truth values, or None unless each is 0 or 1."""
        positive: NDArray[np.bool_] = self.outcomes == 1.0
        return positive if (positive | (self.outcomes == 0.0)).all() else None
