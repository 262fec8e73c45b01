"""The processes of a running service: started in order, again when they die, stopped in reverse."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol, Self, TypeVar

from app.cli.console import note
from app.errors import BAD_INPUT, FAILED, CommandError
from app.storage.redis.server import PRIVATE

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
    def last_output(self) -> str:
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
    is_first: bool = True

    def schedule(self, now: float) -> float:
        if now - self.started > _STABLE_SECONDS:
            self.pause = _FIRST_PAUSE
        pause, self.pause = self.pause, min(2 * self.pause, _LONGEST_PAUSE)
        self.due = now + pause
        return pause

    def start(self) -> None:
        self.process.start()
        self.started, self.due, self.is_first = time.monotonic(), None, False


class Supervision:
    """`with Supervision() as supervision`: what is added runs until the block is left."""

    def __init__(self) -> None:
        self._watches: list[_Watch] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        """A `CommandError` with the end of its output where a process cannot start at all.

        One that was killed, or has run before, is started again instead.
        """
        for watch in self._watches:
            code = watch.process.exit_code
            if watch.is_first and code is not None and code >= 0:
                exit_code = BAD_INPUT if code == BAD_INPUT else FAILED
                raise CommandError(_how_it_ended(watch.process), exit_code)

    def begin(self, done: Callable[[], bool]) -> None:
        """Look after all processes until it is done; raises as `check` does."""
        while not done():
            self.check()
            self.look()

    def watch(self) -> None:
        """Start again whatever dies, until Ctrl-C or SIGTERM."""
        while True:
            self.look()

    def look(self) -> None:
        """Start again what has died and may run again by now, then wait a moment."""
        for watch in self._watches:
            _restart_if_due(watch, time.monotonic())
        time.sleep(_LOOK_SECONDS)


def _restart_if_due(watch: _Watch, now: float) -> None:
    code = watch.process.exit_code
    if code is None:
        return
    if code == BAD_INPUT and watch.is_first:
        raise CommandError(_how_it_ended(watch.process))
    if watch.due is None:
        pause = watch.schedule(now)
        note(f"{_how_it_ended(watch.process)}; it starts again in {pause:g} s")
    elif now >= watch.due:
        watch.start()


def _how_it_ended(process: Supervised) -> str:
    code = process.exit_code or 0
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    said = f":\n{process.last_output}" if process.last_output else ""
    return f"the {process.name} process {how}{said}"


_STEP: Final = 10
_LOWEST: Final = 19


def lower_priority(process_id: int) -> None:
    """Have the process, which leads a session, get a tenth of the CPU that ours gets.

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
    under the same numbers, and `stop_seconds` to end when it is told to. A `nice` one runs at a
    lower priority than we do.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path | None = None
    inherited: tuple[int, ...] = ()
    stop_seconds: float = STOP_SECONDS
    nice: bool = False
    _stopping_since: float | None = None
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in a session of its own: Ctrl-C reaches only us, and we stop it in its turn."""
        # -P: the folder that we run in may hold a package of the name of one of ours.
        command = [sys.executable, "-P", "-m", "app.cli", "--parent", str(os.getpid())]
        output = self._open_log()
        self._process = subprocess.Popen(
            [*command, *self.arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=PRIVATE,
            pass_fds=self.inherited,
        )
        self._stopping_since = None
        if self.nice:
            lower_priority(self._process.pid)
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
        if self._process is not None and self._stopping_since is None:
            self._stopping_since = time.monotonic()
            self._process.terminate()

    def stop(self) -> None:
        """Ask it to end, and end it when it has had its time and does not."""
        self.ask_to_end()
        if self._process is None or self._stopping_since is None:
            return
        try:
            self._process.wait(
                max(0.0, self._stopping_since + self.stop_seconds - time.monotonic())
            )
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def last_output(self) -> str:
        """The end of its log."""
        if self.log is None or not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])

    def _open_log(self) -> IO[bytes] | None:
        if self.log is None:
            return None
        self.log.touch(0o600)
        return self.log.open("ab")
