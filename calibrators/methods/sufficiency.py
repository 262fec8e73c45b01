"""Sufficiency: how many impressions and positives a campaign needs for a map of its own."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats

Reason = Literal["few_samples", "few_positives"]


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """How much a campaign (or the target) needs in the window to get a map of its own."""

    min_samples: float = 100
    min_positives: float = 10

    def missing(self, samples: float, positives: float) -> Reason | None:
        """What there is too little of, if anything."""
        if samples < self.min_samples or samples <= 0:
            return "few_samples"
        return "few_positives" if positives < self.min_positives else None

    def enough(self, samples: Floats, positives: Floats) -> NDArray[np.bool_]:
        """Of which of many nothing is missing, shape (c,)."""
        few_samples = (samples < self.min_samples) | (samples <= 0)
        return ~few_samples & ~(positives < self.min_positives)
