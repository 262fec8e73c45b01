"""A `sirocco` command in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_STOP_SECONDS = 15.0
_LAST_LINES = 8


@dataclass(slots=True)
class Child:
    """`sirocco` with `arguments`, under our environment and `environment`.

    Its output goes into the file `log`, or where ours goes.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in a session of its own: Ctrl-C reaches only us, and we stop it in its turn."""
        command = [sys.executable, "-m", "app.command_line", "--parent", str(os.getpid())]
        output = self._open_log()
        self._process = subprocess.Popen(
            [*command, *self.arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        if output is not None:
            output.close()

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll() if self._process is not None else None

    def stop(self) -> None:
        """Ask it to end, and end it when it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def last_words(self) -> str:
        """The end of its log."""
        if self.log is None or not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])

    def _open_log(self) -> IO[bytes] | None:
        return self.log.open("ab") if self.log is not None else None
