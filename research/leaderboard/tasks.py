"""The plays of a contest: a regime with a seed, or a log.

Plays of a contest, several at a time in processes of their own.
The contenders of a contest on given terms: how far they look back, how large their bins are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from os import sysconf
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from signal import SIG_IGN, SIGINT, signal
from typing import Final, Protocol

from app.cli.console import progress
from app.errors import FAILED, Advance, CommandError
from calibrators import PerCampaign, make_calibrator
from calibrators.bins.history import History
from calibrators.samples import Floats, Integers
from evaluation import EventTable
from research.leaderboard import (
    CONTENDERS,
    PER_CAMPAIGN,
    REGIMES,
    Contender,
    ContenderAbsent,
    MethodContender,
    Played,
    Served,
    play,
)
from research.leaderboard.methods import PublishedSir

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
    with _child_count() as running:
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
def _child_count() -> Iterator[dict[int, _Child]]:
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


_SIR: Final = "sir_published"


@dataclass(frozen=True, slots=True)
class Terms:
    """Hours that methods of one campaign at a time look back, and samples in a bin of sir."""

    hours: int = 24
    bin_size: int = 1000


def chosen_contenders(names: str | None) -> list[str]:
    """The contenders of a list with commas, all of them without one."""
    return chosen("--contenders", names, list(CONTENDERS))


def chosen(option: str, names: str | None, known: list[str]) -> list[str]:
    """The names of a list with commas; a `CommandError` unless all are known."""
    if names is None:
        return known
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted or not set(wanted) <= set(known):
        raise CommandError(f"{option} {names!r}: give some of {', '.join(known)}, comma-separated")
    return list(dict.fromkeys(wanted))


def made(name: str, terms: Terms | None = None) -> Contender:
    """The contender of this name; those that pool campaigns keep windows of their own."""
    usual = CONTENDERS[name]()
    if terms is None or terms == Terms():
        return usual
    if name == _SIR:
        return MethodContender(_SIR, PublishedSir(terms.bin_size, terms.hours), usual.note)
    if name in PER_CAMPAIGN:
        calibrator = make_calibrator(name, terms.bin_size)
        return MethodContender(name, PerCampaign(calibrator, hours=terms.hours), usual.note)
    return usual


_LONGEST_REASON: Final = 200
# Of Linux; fields of a process' state, counted behind its name.
_LISTED: Final = Path("/proc/thread-self/children")
_USER, _SYSTEM = 11, 12


@dataclass(frozen=True, slots=True)
class RegimeTask:
    """A regime's platform of one seed; `judged` hours instead of the regime's own where given."""

    regime: str
    seed: int
    contenders: Sequence[str]
    judged: int | None = None

    @property
    def label(self) -> str:
        """Regime and seed."""
        return f"{self.regime}, seed {self.seed}"

    @property
    def hours(self) -> int:
        """Those before the first judged one too."""
        return REGIMES[self.regime].first_judged + self.judged_hours

    @property
    def judged_hours(self) -> int:
        """Those that count."""
        return self.judged or REGIMES[self.regime].judged_hours

    def play(self, hour_played: HourPlayed, /) -> Done:
        """See `Task`."""
        regime = REGIMES[self.regime]
        clocked = [Clocked(made(name)) for name in self.contenders]
        played = play(
            regime.platform(self.seed), clocked, first_judged=regime.first_judged,
            judged_hours=self.judged_hours, seed=self.seed, progress=hour_played,
        )  # fmt: skip
        return finished(played, clocked, True)


@dataclass(frozen=True, slots=True, eq=False)
class LogTask:
    """The hours of a log that have a whole window before them."""

    label: str
    events: EventTable
    contenders: Sequence[str]
    terms: Terms

    @property
    def hours(self) -> int:
        """All of the log."""
        return int(self.events.hours.max() - self.events.hours.min()) + 1

    def play(self, hour_played: HourPlayed, /) -> Done:
        """See `Task`."""
        clocked = [Clocked(made(name, self.terms)) for name in self.contenders]
        played = play(
            self.events, clocked, first_judged=self.terms.hours,
            judged_hours=self.hours - self.terms.hours, progress=hour_played,
        )  # fmt: skip
        # Rows that stand for several impressions were served once.
        return finished(played, clocked, self.events.weights is None)


def finished(played: Played, clocked: Sequence["Clocked"], promised: bool) -> Done:
    """What a play of watched contenders found; `promised` says that each row is one impression."""
    sums = {each.name: each.promised for each in clocked} if promised else {}
    failed = {each.name: each.failure for each in clocked if each.failure}
    kept = tuple(name for name in played.contenders if name not in failed)
    found = replace(played, contenders=kept, absent={**played.absent, **failed})
    return Done(found, {each.name: each.seconds for each in clocked}, sums)


@dataclass(slots=True)
class Clocked:
    """A contender that is watched: CPU seconds of its refits, and the sum of what it served.

    One that fails is absent from the next refit on; `failure` says why.
    """

    contender: Contender
    seconds: float = field(default=0.0, init=False)
    promised: float = field(default=0.0, init=False)
    failure: str = field(default="", init=False)

    @property
    def name(self) -> str:
        """See `Contender`."""
        return self.contender.name

    @property
    def note(self) -> str:
        """See `Contender`."""
        return self.contender.note

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Served:
        """See `Contender`."""
        if self.failure:
            raise ContenderAbsent(self.failure)
        before = _cpu_seconds()
        try:
            return self._watched(self.contender.refit(history, campaigns))
        except Exception as error:
            self.failure = _reason(error)
            raise ContenderAbsent(self.failure) from error
        finally:
            self.seconds += _cpu_seconds() - before

    def _watched(self, serve: Served) -> Served:
        def served(rows: Integers, scores: Floats) -> Floats:
            if self.failure:
                return scores
            try:
                probabilities = serve(rows, scores)
            except Exception as error:
                self.failure = _reason(error)
                return scores
            self.promised += float(probabilities.sum())
            return probabilities

        return served


def _reason(error: Exception) -> str:
    """Why a contender has no figures, on one line."""
    if isinstance(error, ContenderAbsent):
        return str(error)
    said = " ".join(f"it failed: {type(error).__name__}: {error}".split())
    return said[:_LONGEST_REASON]


def _cpu_seconds() -> float:
    """Of this process and of the children that it has at work."""
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime + sum(map(_seconds_of, _children()))


def _children() -> list[str]:
    """Their process numbers, where the system tells."""
    try:
        return _LISTED.read_text().split()
    except OSError:
        return []


def _seconds_of(process: str) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / sysconf("SC_CLK_TCK")
