"""The answer to one question: in plain Python for a few scores, in one pass for many."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.api.calibrate_request import Question
from app.api.metrics import Metrics
from calibrators import FEW, Atlas
from calibrators.atlas import CAMPAIGN

# No campaign has an empty name: its level is that of all without a map of their own.
_NOBODY = ""


class Calibrated(NamedTuple):
    """Probabilities of n scores of a target, and the atlas and its rows, n too, behind them."""

    target: str
    probabilities: Sequence[float] | NDArray[np.float64]
    atlas: Atlas
    rows: list[int] | NDArray[np.int64]

    @property
    def levels(self) -> list[str]:
        """The level of map behind each probability."""
        return self.atlas.levels(np.asarray(self.rows))


def calibrated(atlas: Atlas, question: Question) -> Calibrated:
    """The calibrated probabilities of a question whose scores are checked."""
    number = len(question.scores)
    if number > FEW:
        return _many(atlas, question, number)
    rows = atlas.few_rows(question.campaigns)
    if len(rows) != number:
        rows *= number
    return Calibrated(question.target, atlas.look_up_few(rows, question.scores), atlas, rows)


def _many(atlas: Atlas, question: Question, number: int) -> Calibrated:
    rows = atlas.rows(question.campaigns)
    if len(rows) != number:
        rows = np.repeat(rows, number)
    probabilities = atlas.look_up(rows, np.fromiter(question.scores, np.float64, number))
    return Calibrated(question.target, probabilities, atlas, rows)


def count_served(part: Calibrated, metrics: Metrics) -> None:
    """Counts how many scores each level of map served."""
    rows = part.rows
    number = len(rows)
    others = rows.count(0) if isinstance(rows, list) else number - int(np.count_nonzero(rows))
    if others < number:
        metrics.count_scores(part.target, CAMPAIGN, number - others)
    if others:
        metrics.count_scores(part.target, part.atlas.level(_NOBODY), others)
