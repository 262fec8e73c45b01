"""A model of another environment: a child process that is asked by lines of JSON."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import numpy as np

from calibrators.samples import Floats
from evaluation.contest.contender import ContenderAbsent

_ONE_THREAD = {f"{kind}_NUM_THREADS": "1" for kind in ("OMP", "OPENBLAS", "MKL")}
_LONGEST_REASON = 160


class Child:
    """A program that answers every line of JSON on its standard input by one on its output.

    First of all it says {"ready": true}, or {"error": why} and ends. Columns travel as .npy files
    of a folder that is gone with the child: `stored` says where. An answer {"error": why} to
    anything else is a failure too.

    Parameters: command; its working folder; ready_seconds, the longest that it may take to be
    ready (it may have to be installed first).

    Raises
    ------
    ContenderAbsent
        When it does not start, and from `ask`: when it answers an error, ends, or takes too long.
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
            raise ContenderAbsent(f"{command[0]} does not start: {error.strerror}") from None
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

    def ask(self, asked: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Its answer, which may take so many seconds."""
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(json.dumps(asked).encode() + b"\n")
            pipe.flush()
        except (BrokenPipeError, ValueError):
            raise ContenderAbsent(self._last_words) from None
        return self._answer(seconds)

    @property
    def _last_words(self) -> str:
        said = self._errors.read_text(errors="replace") if self._errors.exists() else ""
        lines = [line for line in said.splitlines() if line.strip()]
        return f"its process has ended: {lines[-1]}" if lines else "its process has ended"

    def _answer(self, seconds: float) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None
        ready, _, _ = select([pipe], [], [], seconds)
        if not ready:
            self.close()
            raise ContenderAbsent(f"no answer within {seconds:.0f} s")
        line = pipe.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words}
        if "error" in answer:
            self.close()
            raise ContenderAbsent(str(answer["error"])[:_LONGEST_REASON])
        return answer


def _ended(process: "subprocess.Popen[bytes]", files: "TemporaryDirectory[str]") -> None:
    process.kill()
    process.communicate()
    files.cleanup()
