"""Bins of scores as the smoothed isotonic regression sees them, and how they are pooled."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.samples import Floats, Integers

Anchor = Literal["mean", "midpoint"]


@dataclass(frozen=True, slots=True)
class ScoreBins:
    """Equal-frequency bins, (k,) each: score borders, sums of weight, score and outcome.

    Bins of many campaigns may stand end to end: every bin is worked out on its own.
    """

    lower: Floats
    upper: Floats
    weights: Floats
    score_sums: Floats
    positives: Floats

    @classmethod
    def end_to_end(cls, parts: Sequence["ScoreBins"]) -> "ScoreBins":
        """The bins of all parts, one part behind the other."""
        columns = ([getattr(part, column.name) for part in parts] for column in fields(ScoreBins))
        return cls(*(np.concatenate([np.empty(0), *column]) for column in columns))

    @property
    def values(self) -> Floats:
        """Mean outcome of each bin."""
        return np.minimum(self.positives / self.weights, 1.0)

    @property
    def mean_scores(self) -> Floats:
        """Mean score of each bin, inside its borders whatever the rounding."""
        return np.clip(self.score_sums / self.weights, self.lower, self.upper)

    def anchors(self, anchor: Anchor) -> Floats:
        """Where the line through each bin's value passes."""
        return (self.lower + self.upper) / 2 if anchor == "midpoint" else self.mean_scores

    def leaning_on(self, prior: CalibrationMap, strength: float) -> "ScoreBins":
        """Each bin joined by `strength` pseudo-samples at its mean score, with the prior's rate."""
        scores = self.mean_scores
        return ScoreBins(
            self.lower,
            self.upper,
            self.weights + strength,
            self.score_sums + strength * scores,
            self.positives + strength * prior(scores),
        )

    def pooled(self, starts: Integers) -> "ScoreBins":
        """Adjacent bins put together; `starts` are the first bins of the pools."""
        ends = np.append(starts[1:], len(self.lower)) - 1
        sums = (np.add.reduceat(c, starts) for c in (self.weights, self.score_sums, self.positives))
        return ScoreBins(self.lower[starts], self.upper[ends], *sums)
