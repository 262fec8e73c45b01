"""Plays of a contest, several at a time in processes of their own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from signal import SIG_IGN, SIGINT, signal
from typing import Final, Protocol

from app.command_line.errors import FAILED, CommandError
from app.command_line.progress import Advance, progress
from evaluation.contest import Played

HourPlayed = Callable[[int, int], None]
_SPAWN: Final = get_context("spawn")


@dataclass(frozen=True, slots=True)
class Done:
    """What a play found, and by contender the CPU seconds of all refits and the sum of what it
    served."""

    played: Played
    cpu: Mapping[str, float]
    promised: Mapping[str, float]


class Task(Protocol):
    """One play; other processes are sent a copy."""

    @property
    def label(self) -> str:
        """What is played."""

    @property
    def hours(self) -> int:
        """How many hours that takes."""

    def play(self, hour_played: HourPlayed, /) -> Done:
        """Play it."""


def run_tasks(tasks: Sequence[Task], processes: int, *, shown: bool) -> list[Done]:
    """What each task found, in the order of the tasks; a `CommandError` when one of them fails."""
    total = sum(task.hours for task in tasks)
    with progress("playing", total, "hours", shown=shown) as advance:
        if processes == 1 or len(tasks) == 1:
            return [task.play(_told(advance, task)) for task in tasks]
        return _side_by_side(tasks, processes, advance)


def _told(advance: Advance, task: Task) -> HourPlayed:
    return lambda done, of: advance(task.label)


def _side_by_side(tasks: Sequence[Task], processes: int, advance: Advance) -> list[Done]:
    waiting = list(reversed(range(len(tasks))))
    found: dict[int, Done] = {}
    with _children() as running:
        while waiting or running:
            while waiting and len(running) < processes:
                place = waiting.pop()
                running[place] = _Child.of(tasks[place])
            for place in _ready(running):
                done = running[place].received(tasks[place].label)
                if done is None:
                    advance(tasks[place].label)
                else:
                    found[place] = done
                    running.pop(place).process.join()
    return [found[place] for place in range(len(tasks))]


@dataclass(frozen=True, slots=True)
class _Child:
    """A process that plays one task, and what it is heard on."""

    process: SpawnProcess
    connection: Connection

    @classmethod
    def of(cls, task: Task) -> "_Child":
        ours, theirs = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_play, args=(task, theirs), daemon=True)
        process.start()
        # Else its end would not be noticed.
        theirs.close()
        return cls(process, ours)

    def received(self, label: str) -> Done | None:
        """What it found, or None for an hour played."""
        try:
            heard = self.connection.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            raise CommandError(f"{label}: its process ended with {code}", FAILED) from None
        assert heard is None or isinstance(heard, Done)
        return heard


@contextmanager
def _children() -> Iterator[dict[int, _Child]]:
    """The processes that run; what is left of them ends with the block."""
    running: dict[int, _Child] = {}
    try:
        yield running
    finally:
        for child in running.values():
            child.process.terminate()
            child.process.join()


def _ready(running: Mapping[int, _Child]) -> list[int]:
    heard = wait([child.connection for child in running.values()])
    return [place for place, child in running.items() if child.connection in heard]


def _play(task: Task, connection: Connection) -> None:
    # Who pressed the keys ends the parent, and the parent its children.
    signal(SIGINT, SIG_IGN)
    connection.send(task.play(lambda done, of: connection.send(None)))
