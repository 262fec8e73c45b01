"""A `sirocco` command in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from app.command_line.priority import give_way

STOP_SECONDS = 15.0
_LAST_LINES = 8


@dataclass(slots=True)
class Child:
    """`sirocco` with `arguments`, under our environment and `environment`.

    Its output goes into the file `log`, or where ours goes. It has our open files of `inherited`
    under the same numbers, and `stop_seconds` to end when it is told to. One that `gives_way` runs
    at a lower priority than we do.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path | None = None
    inherited: tuple[int, ...] = ()
    stop_seconds: float = STOP_SECONDS
    gives_way: bool = False
    _asked_at: float | None = None
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
            pass_fds=self.inherited,
        )
        self._asked_at = None
        if self.gives_way:
            give_way(self._process.pid)
        if output is not None:
            output.close()

    @property
    def process_id(self) -> int | None:
        """The number of the process that was started last."""
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll() if self._process is not None else None

    def ask_to_reload(self) -> None:
        """Pass a SIGHUP on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def ask_to_end(self) -> None:
        """Tell it once to end, without waiting until it has."""
        if self._process is not None and self._asked_at is None:
            self._asked_at = time.monotonic()
            self._process.terminate()

    def stop(self) -> None:
        """Ask it to end, and end it when it has had its time and does not."""
        self.ask_to_end()
        if self._process is None or self._asked_at is None:
            return
        try:
            self._process.wait(max(0.0, self._asked_at + self.stop_seconds - time.monotonic()))
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
