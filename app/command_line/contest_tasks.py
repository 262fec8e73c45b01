"""The plays of a contest: a regime with a seed, or a log."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import sysconf
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Final

from app.command_line.contest_contenders import Terms, made
from app.command_line.contest_run import Done, HourPlayed
from calibrators.history import History
from calibrators.samples import Floats, Integers
from evaluation import EventTable
from evaluation.contest import REGIMES, Contender, ContenderAbsent, Played, Served, play

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
