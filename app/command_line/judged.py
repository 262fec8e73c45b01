"""Predictions beside what happened: what every table and picture of the command line shows."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation import EventTable, grouped_cal_n, scorecard

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Events and, by name, the probability that each of them was given, (n,).

    An event that stands for several counts as so many.
    """

    events: EventTable
    predictions: Mapping[str, Floats]

    def scorecards(self) -> dict[str, dict[str, float]]:
        """One scorecard for every name."""
        events = self.events
        return {
            name: scorecard(
                probabilities, events.outcomes, events.rows, sample_weight=events.weights
            )
            for name, probabilities in self.predictions.items()
        }

    def share_left_out(self) -> float:
        """Share of the events in campaigns with too few positives to count in GC-3."""
        first, events = next(iter(self.predictions.values())), self.events
        return grouped_cal_n(
            first, events.outcomes, events.rows, 3, sample_weight=events.weights
        ).share_left_out
