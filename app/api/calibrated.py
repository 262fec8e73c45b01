"""The answer to one question: by the scalar path for a few scores, in one pass for many."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.api.calibrate_request import Question
from calibrators import Atlas

# Measured: below this, a loop of scalar look-ups costs less than one vectorised call.
_FEW: Final = 32
# No campaign has an empty name: its level is that of all without a map of their own.
_NOBODY: Final = ""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Probabilities of n scores, and the atlas and its rows (n,) that served them."""

    probabilities: Sequence[float] | NDArray[np.float64]
    atlas: Atlas
    rows: NDArray[np.int64]

    @property
    def levels(self) -> list[str]:
        """The level of map behind each probability."""
        return self.atlas.levels(self.rows)

    @property
    def served(self) -> dict[str, int]:
        """How many scores each level of map served."""
        own = int(np.count_nonzero(self.rows))
        return {"campaign": own, self.atlas.level(_NOBODY): len(self.rows) - own}


def calibrated(atlas: Atlas, question: Question) -> Calibrated:
    """The calibrated probabilities of a question whose scores are checked."""
    rows = atlas.rows(question.campaigns)
    if len(rows) != len(question):
        rows = np.repeat(rows, len(question))
    return Calibrated(_probabilities(atlas, question, rows), atlas, rows)


def _probabilities(
    atlas: Atlas, question: Question, rows: NDArray[np.int64]
) -> Sequence[float] | NDArray[np.float64]:
    if len(question) > _FEW:
        return atlas.look_up(rows, np.array(question.scores))
    alone = len(question.campaigns) == 1
    campaigns = repeat(question.campaigns[0]) if alone else question.campaigns
    return [atlas.at(*pair) for pair in zip(campaigns, question.scores, strict=False)]
