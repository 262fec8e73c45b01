"""The processes of a running service: started in order, again when they die, stopped in reverse."""

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from app.command_line.console import note
from app.command_line.errors import BAD_INPUT, FAILED, CommandError

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
