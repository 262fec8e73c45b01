"""Tasks of the leaderboard, a regime with a seed or a log each, run side by side in processes."""

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
from calibrators.bins.table import History
from calibrators.samples import Floats, Integers
from evaluation import EventTable
from research.leaderboard import (
    METHODS,
    PER_CAMPAIGN,
    REGIMES,
    LeaderboardMethod,
    MethodUnavailable,
    Predictor,
    Results,
    ServiceMethod,
    prequential,
)
from research.leaderboard.methods import PublishedSir

HourDone = Callable[[int, int], None]
_SPAWN: Final = get_context("spawn")


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task found, and by method the CPU seconds of all refits."""

    results: Results
    cpu: Mapping[str, float]


class Task(Protocol):
    """One run; other processes are sent a copy."""

    @property
    def label(self) -> str:
        """What is run."""

    @property
    def hours(self) -> int:
        """How many hours that takes."""

    def run(self, hour_done: HourDone, /) -> TaskResult:
        """Run it."""


def run_tasks(tasks: Sequence[Task], processes: int, *, shown: bool) -> list[TaskResult]:
    """What each task found, in the order of the tasks; a `CommandError` when one of them fails."""
    total = sum(task.hours for task in tasks)
    with progress("refitting and scoring", total, "hours", shown=shown) as advance:
        if processes == 1 or len(tasks) == 1:
            return [task.run(_hour_done(advance, task)) for task in tasks]
        return _side_by_side(tasks, processes, advance)


def _hour_done(advance: Advance, task: Task) -> HourDone:
    return lambda done, of: advance(task.label)


def _side_by_side(tasks: Sequence[Task], processes: int, advance: Advance) -> list[TaskResult]:
    queue = list(reversed(range(len(tasks))))
    found: dict[int, TaskResult] = {}
    with _children_ended() as running:
        while queue or running:
            while queue and len(running) < processes:
                place = queue.pop()
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
    """A process that runs one task, and the connection to it."""

    process: SpawnProcess
    connection: Connection

    @classmethod
    def of(cls, task: Task) -> "_Child":
        ours, theirs = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_run, args=(task, theirs), daemon=True)
        process.start()
        # Else its end would not be noticed.
        theirs.close()
        return cls(process, ours)

    def received(self, label: str) -> TaskResult | None:
        """What it found, or None for an hour done."""
        try:
            message = self.connection.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            raise CommandError(f"{label}: its process ended with {code}", FAILED) from None
        assert message is None or isinstance(message, TaskResult)
        return message


@contextmanager
def _children_ended() -> Iterator[dict[int, _Child]]:
    """The processes that run; what is left of them ends with the block."""
    running: dict[int, _Child] = {}
    try:
        yield running
    finally:
        for child in running.values():
            child.process.terminate()
            child.process.join()


def _ready(running: Mapping[int, _Child]) -> list[int]:
    ready = wait([child.connection for child in running.values()])
    return [place for place, child in running.items() if child.connection in ready]


def _run(task: Task, connection: Connection) -> None:
    # Who pressed the keys ends the parent, and the parent its children.
    signal(SIGINT, SIG_IGN)
    connection.send(task.run(lambda done, of: connection.send(None)))


_SIR: Final = "sir_published"


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """Hours that methods of one campaign at a time look back, and samples in a bin of sir."""

    hours: int = 24
    bin_size: int = 1000


def chosen_methods(names: str | None) -> list[str]:
    """The methods of a list with commas, all of them without one."""
    return chosen("--contenders", names, list(METHODS))


def chosen(option: str, names: str | None, known: list[str]) -> list[str]:
    """The names of a list with commas; a `CommandError` unless all are known."""
    if names is None:
        return known
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted or not set(wanted) <= set(known):
        raise CommandError(f"{option} {names!r}: give some of {', '.join(known)}, comma-separated")
    return list(dict.fromkeys(wanted))


def made(name: str, window: WindowOptions | None = None) -> LeaderboardMethod:
    """The method of this name; those that pool campaigns keep windows of their own."""
    default = METHODS[name]()
    if window is None or window == WindowOptions():
        return default
    if name == _SIR:
        return ServiceMethod(_SIR, PublishedSir(window.bin_size, window.hours), default.note)
    if name in PER_CAMPAIGN:
        calibrator = make_calibrator(name, window.bin_size)
        return ServiceMethod(name, PerCampaign(calibrator, hours=window.hours), default.note)
    return default


_LONGEST_REASON: Final = 200
# Of Linux; fields of a process' state, counted behind its name.
_LISTED: Final = Path("/proc/thread-self/children")
_USER, _SYSTEM = 11, 12


@dataclass(frozen=True, slots=True)
class RegimeTask:
    """A regime's platform of one seed; `scored` hours instead of the regime's own where given."""

    regime: str
    seed: int
    methods: Sequence[str]
    scored: int | None = None

    @property
    def label(self) -> str:
        """Regime and seed."""
        return f"{self.regime}, seed {self.seed}"

    @property
    def hours(self) -> int:
        """Those before the first scored one too."""
        return REGIMES[self.regime].first_scored + self.scored_hours

    @property
    def scored_hours(self) -> int:
        """Those that count."""
        return self.scored or REGIMES[self.regime].scored_hours

    def run(self, hour_done: HourDone, /) -> TaskResult:
        """See `Task`."""
        regime = REGIMES[self.regime]
        timed = [TimedMethod(made(name)) for name in self.methods]
        results = prequential(
            regime.platform(self.seed), timed, first_scored=regime.first_scored,
            scored_hours=self.scored_hours, seed=self.seed, progress=hour_done,
        )  # fmt: skip
        return finished(results, timed)


@dataclass(frozen=True, slots=True, eq=False)
class LogTask:
    """The hours of a log that have a whole window before them."""

    label: str
    events: EventTable
    methods: Sequence[str]
    window: WindowOptions

    @property
    def hours(self) -> int:
        """All of the log."""
        return int(self.events.hours.max() - self.events.hours.min()) + 1

    def run(self, hour_done: HourDone, /) -> TaskResult:
        """See `Task`."""
        timed = [TimedMethod(made(name, self.window)) for name in self.methods]
        results = prequential(
            self.events, timed, first_scored=self.window.hours,
            scored_hours=self.hours - self.window.hours, progress=hour_done,
        )  # fmt: skip
        return finished(results, timed)


def finished(results: Results, timed: Sequence["TimedMethod"]) -> TaskResult:
    """What a run of timed methods found, without those that failed."""
    failed = {each.name: each.failure for each in timed if each.failure}
    kept = tuple(name for name in results.methods if name not in failed)
    found = replace(results, methods=kept, unavailable={**results.unavailable, **failed})
    return TaskResult(found, {each.name: each.seconds for each in timed})


@dataclass(slots=True)
class TimedMethod:
    """A method and the CPU seconds of its refits.

    One that fails is unavailable from the next refit on; `failure` says why.
    """

    method: LeaderboardMethod
    seconds: float = field(default=0.0, init=False)
    failure: str = field(default="", init=False)

    @property
    def name(self) -> str:
        """See `LeaderboardMethod`."""
        return self.method.name

    @property
    def note(self) -> str:
        """See `LeaderboardMethod`."""
        return self.method.note

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        """See `LeaderboardMethod`."""
        if self.failure:
            raise MethodUnavailable(self.failure)
        before = cpu_seconds()
        try:
            return self._guarded(self.method.refit(history, campaigns))
        except Exception as error:
            self.failure = _reason(error)
            raise MethodUnavailable(self.failure) from error
        finally:
            self.seconds += cpu_seconds() - before

    def _guarded(self, predict: Predictor) -> Predictor:
        def guarded(rows: Integers, scores: Floats) -> Floats:
            if self.failure:
                return scores
            try:
                probabilities = predict(rows, scores)
            except Exception as error:
                self.failure = _reason(error)
                return scores
            wrong = probabilities[~((probabilities >= 0.0) & (probabilities <= 1.0))]
            if len(wrong):
                self.failure = f"it served {wrong[0]:g}, which is no probability"
                return scores
            return probabilities

        return guarded


def _reason(error: Exception) -> str:
    """Why a method has no figures, on one line."""
    if isinstance(error, MethodUnavailable):
        return str(error)
    reason = " ".join(f"it failed: {type(error).__name__}: {error}".split())
    return reason[:_LONGEST_REASON]


def cpu_seconds() -> float:
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
