"""A calibration library of another environment: a child process that fits, looks up, and times."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from benchmarks.peers.environments import environment
from calibrators.samples import Floats

PROGRAM = Path(__file__).parent / "programs" / "calibrating.py"
MOST_SECONDS = 120.0
_ONE_THREAD = {f"{kind}_NUM_THREADS": "1" for kind in ("OMP", "OPENBLAS", "MKL")}


class PeerFailed(Exception):
    """The peer's own error, or that it took too long."""


class PeerCalibrator:
    """`with PeerCalibrator("netcal") as peer`; times are seconds of the child's CPU.

    Raises NotInstalled when its environment cannot be made.
    """

    def __init__(self, name: str, python: Path | None = None) -> None:
        self._name = name
        command = [str(python or environment(name)), str(PROGRAM), name]
        self._folder = TemporaryDirectory()
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()
        self._folder.cleanup()

    def fit(
        self, method: str, scores: Floats, outcomes: Floats, most_seconds: float = MOST_SECONDS
    ) -> float:
        """Seconds of one fit to samples (n,); the model is kept for `look_up`.

        Raises PeerFailed; after `most_seconds` of wall time the child is ended, and of no use any
        more.
        """
        request = {"fit": method, **self._stored(scores=scores, outcomes=outcomes)}
        return float(self._ask(request, most_seconds)["seconds"])

    def look_up(
        self,
        scores: Floats,
        counts: Sequence[int] | None = None,
        most_seconds: float = MOST_SECONDS,
    ) -> tuple[float, Floats]:
        """Seconds of looking up scores (n,) in the model, and the probabilities (n,).

        With `counts` (k,), summing up to n, in k calls of so many scores: as when each campaign had
        a model of its own. Raises PeerFailed as `fit` does.
        """
        request = {"counts": counts or [len(scores)], **self._stored(scores=scores)}
        answer = self._ask(request, most_seconds)
        return float(answer["seconds"]), np.load(answer["probabilities"])

    def _stored(self, **columns: Floats) -> dict[str, str]:
        paths = {name: f"{self._folder.name}/{name}.npy" for name in columns}
        for name, values in columns.items():
            np.save(paths[name], values)
        return paths

    def _ask(self, request: dict[str, Any], most_seconds: float) -> dict[str, Any]:
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            raise PeerFailed(f"{self._name} has ended") from None
        ready, _, _ = select([child.stdout], [], [], most_seconds)
        if not ready:
            child.kill()
            raise PeerFailed(f"more than {most_seconds:.0f} s")
        line = child.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "ended by itself"}
        if "error" in answer:
            raise PeerFailed(f"{self._name}: {answer['error']}")
        return answer
