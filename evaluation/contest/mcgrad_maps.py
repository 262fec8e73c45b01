"""MCGrad, multicalibration by gradient boosting, in an environment of its own."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from calibrators.history import History
from calibrators.samples import Floats, Integers
from evaluation.contest.cell_rows import CellRows
from evaluation.contest.child import Child
from evaluation.contest.contender import Served

ROOT: Final = Path(__file__).parents[2]
COMMAND: Final = (sys.executable, "-m", "benchmarks.peers.mcgrad")
"""Makes the environment if it is not there, and becomes the child; see the program."""

_READY_SECONDS, _FIT_SECONDS, _SERVE_SECONDS = 1800.0, 600.0, 300.0


@dataclass(slots=True)
class McGradMaps:
    """MCGrad on the campaign and the log-odds of the score, on the cells of the past day.

    Source: Tax et al., MCGrad: Multicalibration at Web Scale (KDD 2026), their package, with its
    own settings. A failure of its process is a reason to be absent.

    Parameters: command of the child.
    """

    command: Sequence[str] = COMMAND
    name: str = "mcgrad"
    note: str = "on 24 h, with the settings of its package"
    _child: Child | None = None

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Served:
        """See `Contender`."""
        cells = CellRows.of(history, campaigns)
        if not cells.outcomes.any():
            return lambda rows, scores: scores
        self._fit(cells)
        return self._serve

    def _fit(self, cells: CellRows) -> None:
        if self._child is None:
            self._child = Child(self.command, ROOT, _READY_SECONDS)
        stored = self._child.stored(
            rows=cells.rows.astype(np.float64),
            scores=cells.scores,
            outcomes=cells.outcomes,
            weights=cells.weights,
        )
        self._child.ask({"fit": stored}, _FIT_SECONDS)

    def _serve(self, rows: Integers, scores: Floats) -> Floats:
        if not len(rows):
            return scores
        assert self._child is not None
        stored = self._child.stored(rows=rows.astype(np.float64), scores=scores)
        answer = self._child.ask({"serve": stored}, _SERVE_SECONDS)
        probabilities: Floats = np.load(answer["probabilities"])
        return probabilities
