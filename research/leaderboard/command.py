"""`sirocco backtest --compare`: what was asked for, and its run.

What `sirocco backtest --compare` runs: regimes, a jump, or a log.
How long a jump hurts, by the time between refits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from app.cli.console import percent_bar
from app.cli.options import refuse
from app.datasets.impressions import MOST_ROWS, LogColumns, read_events
from app.errors import CommandError, invocation
from app.results.scored_events import first_evaluated_hour
from research.leaderboard import CONTENDERS, REGIMES, Distortions, DriftingPlatform, play
from research.leaderboard.report import Outlets, report_contest
from research.leaderboard.result import (
    Contested,
    ContestResult,
    DriftCurves,
    Origin,
    merged,
    read_result,
)
from research.leaderboard.summary import DRAWS, contested
from research.leaderboard.tasks import (
    Done,
    HourPlayed,
    LogTask,
    RegimeTask,
    Terms,
    chosen,
    chosen_contenders,
    run_tasks,
)
from research.reproduction.page import machine

BEFORE: Final = 4
JUDGED: Final = 16
ABOUT: Final = (
    "100 campaigns, CTR 2 %: everyone's level jumps by half a unit of log-odds, at hour 0 to the"
    " minute"
)
_DISTORTIONS: Final = Distortions(level=0.25, slope=0.1, wave=0.04, bend=0.2, global_jump=0.5)
_CAMPAIGNS, _IMPRESSIONS, _CTR = 100, 15_000, 0.02
_REFITS: Final = (("pooled", 60), ("pooled", 15), ("pooled", 5), ("sir", 60))


@dataclass(frozen=True, slots=True)
class DriftTask:
    """A contender that is refitted every so many minutes, around the jump of a seed."""

    contender: str
    minutes: int
    seed: int

    @property
    def label(self) -> str:
        """Contender, refits and seed."""
        return f"{self.series}, seed {self.seed}"

    @property
    def series(self) -> str:
        """The name of its curve."""
        return f"{self.contender}, {self.minutes} min"

    @property
    def platform(self) -> DriftingPlatform:
        """Nothing moves but at the jump."""
        return DriftingPlatform(_CAMPAIGNS, _IMPRESSIONS, _CTR, self.seed, _DISTORTIONS)

    @property
    def hours(self) -> int:
        """Those before the first judged one too."""
        return self.platform.paths.global_jump_hour - BEFORE + JUDGED

    def play(self, hour_played: HourPlayed, /) -> Done:
        """See `Task`."""
        played = play(
            self.platform, [CONTENDERS[self.contender]()], first_judged=self.hours - JUDGED,
            judged_hours=JUDGED, minutes=self.minutes, seed=self.seed, progress=hour_played,
        )  # fmt: skip
        return Done(played, {}, {})


def drift_tasks(seeds: Sequence[int]) -> list[DriftTask]:
    """A play for each curve and seed."""
    return [DriftTask(who, minutes, seed) for who, minutes in _REFITS for seed in seeds]


def drift_curves(tasks: Sequence[DriftTask], found: Sequence[Done]) -> DriftCurves:
    """The mean over the seeds of each curve."""
    curves: dict[str, list[list[float]]] = {}
    for task, done in zip(tasks, found, strict=True):
        curve = dict(done.played.curve(task.contender))
        hours = [curve.get(hour, float("nan")) for hour in range(JUDGED)]
        curves.setdefault(task.series, []).append(hours)
    hours = [float(hour - BEFORE) for hour in range(JUDGED)]
    seeds = list(dict.fromkeys(task.seed for task in tasks))
    return DriftCurves(ABOUT, hours, _means(curves), seeds)


def _means(curves: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, list[float]]:
    return {name: np.mean(seeds, axis=0).tolist() for name, seeds in curves.items()}


@dataclass(frozen=True, slots=True)
class Contest:
    """How methods are compared.

    Attributes
    ----------
    contenders : their names.
    draws : of campaign-days, for the intervals.
    processes : plays at a time.
    quiet : whether no progress is shown.
    """

    contenders: Sequence[str]
    draws: int
    processes: int
    quiet: bool

    def of_regimes(
        self, regimes: Sequence[str], seeds: int, judged: int | None, *, drift: bool
    ) -> ContestResult:
        """Synthetic traffic of each regime and seed, and a jump too if asked for."""
        plays = [
            RegimeTask(name, seed, self.contenders, judged)
            for name in regimes
            for seed in range(seeds)
        ]
        jumps = drift_tasks(range(seeds)) if drift else []
        done = run_tasks([*plays, *jumps], self.processes, shown=not self.quiet)
        found = [
            self._regime(name, done[place * seeds : (place + 1) * seeds])
            for place, name in enumerate(regimes)
        ]
        return ContestResult(found, [_origin()], _curves(jumps, done[len(plays) :]))

    def of_log(self, log: Path, columns: LogColumns, terms: Terms) -> ContestResult:
        """The hours of a log that have a whole window before them."""
        with percent_bar(f"reading {log.name}", shown=not self.quiet) as reached:
            events = read_events(log, columns, reached, most_rows=MOST_ROWS)
        first_evaluated_hour(events, terms.hours)
        task = LogTask(log.name, events, self.contenders, terms)
        done = run_tasks([task], 1, shown=not self.quiet)
        about = f"windows of {terms.hours} h, bins of {terms.bin_size:,}"
        found = contested(log.name, about, len(events.campaigns), done, self.draws)
        return ContestResult([found], [_origin()])

    def _regime(self, name: str, done: Sequence[Done]) -> Contested:
        regime = REGIMES[name]
        return contested(name, regime.description, regime.campaigns, done, self.draws)


def _curves(tasks: Sequence[DriftTask], done: Sequence[Done]) -> DriftCurves | None:
    return drift_curves(tasks, done) if tasks else None


def _origin() -> Origin:
    return Origin(invocation(), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", machine())


_USUAL: Final = Terms()


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as they were given; None where one was not."""

    logs: Sequence[Path]
    regimes: str | None
    seeds: int | None
    contenders: str | None
    judged: int | None
    drift: bool
    processes: int | None
    kept: Sequence[Path]
    window: int | None
    bin_size: int | None
    draws: int | None


def run_contest(asked: Asked, columns: LogColumns, outlets: Outlets) -> None:
    """Play or read, then show; a `CommandError` for what does not go together."""
    if asked.draws == 0:
        raise CommandError("--draws 0: must be at least 1 with --compare")
    outlets.check()
    if asked.kept:
        report_contest(_kept(asked), outlets)
        return
    contest = Contest(
        chosen_contenders(asked.contenders), asked.draws or DRAWS, asked.processes or 1,
        outlets.as_json,
    )  # fmt: skip
    found = _of_log(contest, asked, columns) if asked.logs else _of_regimes(contest, asked)
    report_contest(found, outlets)


def _kept(asked: Asked) -> ContestResult:
    given = {
        "LOG": asked.logs or None,
        "--regimes": asked.regimes,
        "--seeds": asked.seeds,
        "--contenders": asked.contenders,
        "--drift": asked.drift or None,
        "--processes": asked.processes,
        "--draws": asked.draws,
        "--judged": asked.judged,
        "--window": asked.window,
        "--bin-size": asked.bin_size,
    }
    refuse(given, "does not go with --from: it shows what was played")
    return merged([read_result(path) for path in asked.kept])


def _of_log(contest: Contest, asked: Asked, columns: LogColumns) -> ContestResult:
    given = {
        "--regimes": asked.regimes,
        "--seeds": asked.seeds,
        "--judged": asked.judged,
        "--drift": asked.drift or None,
        "--processes": asked.processes,
    }
    refuse(given, "goes with synthetic regimes, not with a log")
    if len(asked.logs) != 1:
        raise CommandError(f"{len(asked.logs)} logs are given: --compare takes one, or none")
    terms = Terms(asked.window or _USUAL.hours, asked.bin_size or _USUAL.bin_size)
    return contest.of_log(asked.logs[0], columns, terms)


def _of_regimes(contest: Contest, asked: Asked) -> ContestResult:
    given = {"--window": asked.window, "--bin-size": asked.bin_size}
    refuse(given, "goes with a log, not with synthetic regimes")
    only_drift = asked.drift and asked.regimes is None
    regimes = [] if only_drift else chosen("--regimes", asked.regimes, list(REGIMES))
    return contest.of_regimes(regimes, asked.seeds or 1, asked.judged, drift=asked.drift)
