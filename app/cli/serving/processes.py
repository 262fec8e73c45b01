"""The processes of a running service: started in order, again when they die, stopped in reverse.

A `sirocco` command in a process of its own.
Which processes come first where several share a core.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Protocol, Self, TypeVar

from app.cli.console import note
from app.errors import BAD_INPUT, FAILED, CommandError

_LOOK_SECONDS = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_STABLE_SECONDS = 60.0


class Supervised(Protocol):
    """A process that can be started again after it has ended."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""

    @property
    def last_words(self) -> str:
        """The end of what it wrote, where that is not on the screen already."""

    def start(self) -> None:
        """Start it, or start it again."""

    def stop(self) -> None:
        """End it; nothing happens when it has ended."""


Process = TypeVar("Process", bound=Supervised)


@dataclass(slots=True)
class _Watch:
    """A process and when it may be started again: pauses double until it has run for a minute."""

    process: Supervised
    started: float
    pause: float = _FIRST_PAUSE
    due: float | None = None

    def schedule(self, now: float) -> float:
        if now - self.started > _STABLE_SECONDS:
            self.pause = _FIRST_PAUSE
        pause, self.pause = self.pause, min(2 * self.pause, _LONGEST_PAUSE)
        self.due = now + pause
        return pause

    def start(self) -> None:
        self.process.start()
        self.started, self.due = time.monotonic(), None


class Supervision:
    """`with Supervision() as supervision`: what is added runs until the block is left."""

    def __init__(self) -> None:
        self._watches: list[_Watch] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for watch in reversed(self._watches):
            watch.process.stop()

    def add(self, process: Process) -> Process:
        """Start a process and answer for it."""
        self._watches.append(_Watch(process, time.monotonic()))
        process.start()
        return process

    def replace(self, old: Process, new: Process) -> None:
        """Answer for `new`, which runs already, and no longer for `old`, which goes on."""
        watch = next(watch for watch in self._watches if watch.process is old)
        self._watches[self._watches.index(watch)] = _Watch(new, time.monotonic())

    def check(self) -> None:
        """A `CommandError` with its last words when a process has ended."""
        for watch in self._watches:
            code = watch.process.exit_code
            if code is not None:
                exit_code = BAD_INPUT if code == BAD_INPUT else FAILED
                raise CommandError(_obituary(watch.process), exit_code)

    def tend(self) -> None:
        """Start again whatever dies, until Ctrl-C or SIGTERM."""
        while True:
            self.look()

    def look(self) -> None:
        """Start again what has died and may run again by now, then wait a moment."""
        for watch in self._watches:
            _revive(watch, time.monotonic())
        time.sleep(_LOOK_SECONDS)


def _revive(watch: _Watch, now: float) -> None:
    code = watch.process.exit_code
    if code is None:
        return
    if code == BAD_INPUT:
        raise CommandError(_obituary(watch.process))
    if watch.due is None:
        pause = watch.schedule(now)
        note(f"{_obituary(watch.process)}; it starts again in {pause:g} s")
    elif now >= watch.due:
        watch.start()


def _obituary(process: Supervised) -> str:
    code = process.exit_code or 0
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    said = f":\n{process.last_words}" if process.last_words else ""
    return f"the {process.name} process {how}{said}"


_STEP: Final = 10
_LOWEST: Final = 19


def give_way(process_id: int) -> None:
    """Have the process, which leads a session, give way to ours: it gets a tenth of what others do.

    What it starts from then on inherits that. Nothing is lost where the machine has nothing else to
    do.
    """
    lower = min(_LOWEST, os.getpriority(os.PRIO_PROCESS, 0) + _STEP)
    # It may have ended already.
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process_id, lower)
        # Where Linux groups processes by session, only the group's priority counts between them.
        Path(f"/proc/{process_id}/autogroup").write_text(str(lower))


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
        command = [sys.executable, "-m", "app.cli", "--parent", str(os.getpid())]
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
