"""Maturity: how well probabilities came true on clicks whose attribution window is now over."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.click_log import LoggedClicks
from app.worker.click_days import Span
from app.worker.judging import Row, quality
from app.worker.label_source import score
from app.worker.model_shelf import ShelvedModel
from calibrators import BinsTable
from evaluation.predictions import Predictions
from evaluation.scorecard import pooled_scores
from pccem import Attribution, FeatureMismatch

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Matured:
    """Clicks whose outcomes are final, all of a span or a sample of them."""

    clicks: LoggedClicks
    attribution: Attribution

    @property
    def outcomes(self) -> Floats:
        """(n,) 1 for a click that converted."""
        return self.attribution.converted.astype(np.float64)

    @property
    def weight(self) -> float:
        """Clicks that each one stands for."""
        return self.clicks.total / len(self.clicks) if len(self.clicks) else 1.0

    def within(self, span: Span) -> Flags:
        """(n,) which of the clicks are of a span."""
        at = self.clicks.clicks.clicked_at
        return (at >= span[0]) & (at < span[1])

    def report(self, span: Span, shelved: ShelvedModel | None, num_threads: int) -> dict[str, Any]:
        """Quality of raw scores, of served probabilities and of the model on a span's clicks,
        against what came of them."""
        chosen = self.within(span)
        served = self.clicks.probabilities
        return {
            "first": span[0],
            "behind": span[1],
            "raw": self._quality(self.clicks.clicks.scores, chosen),
            "calibrated": self._quality(served, chosen & ~np.isnan(served)),
            "model": None if shelved is None else self._of_model(shelved, chosen, num_threads),
        }

    def _quality(self, values: Floats, chosen: Flags) -> Row:
        clicks = self.clicks.clicks
        rows = clicks.rows[chosen].astype(np.int64)
        counts, outcomes = np.ones(len(rows)), self.outcomes[chosen]
        return quality(
            BinsTable.from_columns(clicks.campaigns, rows, values[chosen], counts, outcomes)
        )

    def _of_model(self, shelved: ShelvedModel, chosen: Flags, num_threads: int) -> Row | None:
        """On the clicks that had not converted when the model was asked; None without one, and
        where the features are not those that it was trained on."""
        if shelved.model is None:
            return None
        asked = chosen & ~(self.attribution.delay < shelved.post_click)
        try:
            scores = score(shelved.model, self.clicks.clicks.select(asked), num_threads)
        except FeatureMismatch:
            return None
        row = pooled_scores(Predictions.check(scores, self.outcomes[asked], None))
        return {name: value if math.isfinite(value) else None for name, value in row.items()}
