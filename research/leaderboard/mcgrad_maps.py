"""MCGrad, multicalibration by gradient boosting, in an environment of its own: a child process that
is sent requests as lines of JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any, Final
from weakref import finalize

import numpy as np

from calibrators.bins.table import History
from calibrators.samples import Floats, Integers
from research.leaderboard.boosted_maps import CellRows
from research.leaderboard.method import MethodUnavailable, Predictor

_ONE_THREAD = {f"{kind}_NUM_THREADS": "1" for kind in ("OMP", "OPENBLAS", "MKL")}
_LONGEST_REASON = 160


class Child:
    """A program that answers every line of JSON on its standard input by one on its output.

    First of all it says {"ready": true}, or {"error": why} and ends. Columns travel as .npy files
    of a folder that is gone with the child: `stored` says where. An answer {"error": why} to
    anything else is a failure too.

    Parameters: command; its working folder; ready_seconds, the longest that it may take to be
    ready (it may have to be installed first).

    Raises MethodUnavailable when it does not start, and from `request`: when it answers an error,
    ends, or takes too long.
    """

    def __init__(self, command: Sequence[str], folder: Path, ready_seconds: float) -> None:
        self._files = TemporaryDirectory()
        self._errors = Path(self._files.name) / "errors"
        try:
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    list(command),
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **_ONE_THREAD},
                )
        except OSError as error:
            self._files.cleanup()
            raise MethodUnavailable(f"{command[0]} does not start: {error.strerror}") from None
        self._end = finalize(self, _ended, self._process, self._files)
        self._answer(ready_seconds)

    def close(self) -> None:
        """End it, if it has not ended."""
        self._end()

    def stored(self, **columns: Floats) -> dict[str, str]:
        """Files that hold the columns from now on, by their names."""
        paths = {name: f"{self._files.name}/{name}.npy" for name in columns}
        for name, values in columns.items():
            np.save(paths[name], values)
        return paths

    def request(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Its answer, which may take so many seconds."""
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(json.dumps(message).encode() + b"\n")
            pipe.flush()
        except (BrokenPipeError, ValueError):
            raise MethodUnavailable(self._end_of_errors) from None
        return self._answer(seconds)

    @property
    def _end_of_errors(self) -> str:
        text = self._errors.read_text(errors="replace") if self._errors.exists() else ""
        lines = [line for line in text.splitlines() if line.strip()]
        return f"its process has ended: {lines[-1]}" if lines else "its process has ended"

    def _answer(self, seconds: float) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None
        ready, _, _ = select([pipe], [], [], seconds)
        if not ready:
            self.close()
            raise MethodUnavailable(f"no answer within {seconds:.0f} s")
        line = pipe.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._end_of_errors}
        if "error" in answer:
            self.close()
            raise MethodUnavailable(str(answer["error"])[:_LONGEST_REASON])
        return answer


def _ended(process: "subprocess.Popen[bytes]", files: "TemporaryDirectory[str]") -> None:
    process.kill()
    process.communicate()
    files.cleanup()


ROOT: Final = Path(__file__).parents[2]
COMMAND: Final = (sys.executable, "-m", "benchmarks.peers.mcgrad")
"""Makes the environment if it is not there, and becomes the child; see the program."""

_READY_SECONDS, _FIT_SECONDS, _SERVE_SECONDS = 1800.0, 600.0, 300.0


@dataclass(slots=True)
class McGradMaps:
    """MCGrad on the campaign and the log-odds of the score, on the cells of the past day.

    Source: Tax et al., MCGrad: Multicalibration at Web Scale (KDD 2026), their package, with its
    own settings. A failure of its process is a reason to be unavailable.

    Parameters: command of the child.
    """

    command: Sequence[str] = COMMAND
    name: str = "mcgrad"
    note: str = "on 24 h, with the settings of its package"
    _child: Child | None = None

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        """See `LeaderboardMethod`."""
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
        self._child.request({"fit": stored}, _FIT_SECONDS)

    def _serve(self, rows: Integers, scores: Floats) -> Floats:
        if not len(rows):
            return scores
        assert self._child is not None
        stored = self._child.stored(rows=rows.astype(np.float64), scores=scores)
        answer = self._child.request({"serve": stored}, _SERVE_SECONDS)
        probabilities: Floats = np.load(answer["probabilities"])
        return probabilities
