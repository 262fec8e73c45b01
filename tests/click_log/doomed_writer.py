"""Processes that kill themselves as kill -9 does, before one of the steps of a write.

The one argument is a folder; each process has a log in it, and a file that grows by a byte with
every batch that is acknowledged.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.click_log.log import ClickLog
from tests.click_log.rows import click


@dataclass(frozen=True)
class Moment:
    """Before the so-manieth call of a function of `os`, with so many batches acknowledged."""

    step: str
    call: int
    acknowledged: int

    @property
    def name(self) -> str:
        """The folder of its log."""
        return f"{self.step}-{self.call}"

    def acknowledged_in(self, root: Path) -> int:
        """How many batches the process saw acknowledged."""
        return len(self._acknowledgements(root).read_bytes())

    def die(self, root: Path) -> None:
        """Write until the moment comes."""
        true: Callable[..., Any] = getattr(os, self.step)
        calls = iter(range(self.call - 1, -1, -1))

        def armed(*arguments: Any) -> Any:
            if next(calls) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return true(*arguments)

        setattr(os, self.step, armed)
        with self._acknowledgements(root).open("wb", buffering=0) as acknowledgements:
            write_batches(
                ClickLog.open(str(root / self.name)), lambda: acknowledgements.write(b".")
            )

    def _acknowledgements(self, root: Path) -> Path:
        return root / f"{self.name}.acknowledged"


MOMENTS = (
    Moment("fsync", 1, 0),  # of a folder that holds a new one
    Moment("fsync", 5, 0),  # of the file
    Moment("replace", 1, 0),
    Moment("fsync", 6, 0),  # of the folder that holds the file
    Moment("fsync", 7, 1),
    Moment("replace", 2, 1),
    Moment("replace", 3, 2),
)


def write_batches(log: ClickLog, acknowledged: Callable[[], object] = lambda: None) -> None:
    """Two clicks in each batch, the first of them that of the batch before."""
    for batch in range(3):
        log.write_clicks([click(f"{batch + number}", batch + number) for number in range(2)])
        acknowledged()


def main(root: Path) -> int:
    """Zero if every process was killed at its moment."""
    for moment in MOMENTS:
        if (child := os.fork()) == 0:
            moment.die(root)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
