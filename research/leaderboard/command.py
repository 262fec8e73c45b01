"""`sirocco backtest --compare`: its options, and its run on regimes, around a jump, or on a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from app.cli.console import note_skipped, percent_bar
from app.cli.options import refuse
from app.datasets.impressions import MOST_ROWS, LogColumns, read_events
from app.datasets.options import Reading
from app.datasets.parts import Where, name_of
from app.errors import CommandError, typed_command
from app.results.backtest import first_evaluated_hour
from research.leaderboard import METHODS, REGIMES, Distortions, DriftingPlatform, prequential
from research.leaderboard.report import Outputs, report_leaderboard
from research.leaderboard.result_file import (
    DriftCurves,
    Leaderboard,
    Origin,
    TrafficResult,
    merged,
    read_result,
)
from research.leaderboard.summary import DRAWS, traffic_result
from research.leaderboard.tasks import (
    HourDone,
    LogTask,
    RegimeTask,
    TaskResult,
    WindowOptions,
    chosen,
    chosen_methods,
    run_tasks,
)
from research.reproduction.page import machine

BEFORE: Final = 4
SCORED: Final = 16
ABOUT: Final = (
    "100 campaigns, CTR 2 %: everyone's level jumps by half a unit of log-odds, at hour 0 to the"
    " minute"
)
_DISTORTIONS: Final = Distortions(level=0.25, slope=0.1, wave=0.04, bend=0.2, global_jump=0.5)
_CAMPAIGNS, _IMPRESSIONS, _CTR = 100, 15_000, 0.02
_REFITS: Final = (("pooled", 60), ("pooled", 15), ("pooled", 5), ("sir", 60))


@dataclass(frozen=True, slots=True)
class DriftTask:
    """A method that is refitted every so many minutes, around the jump of a seed."""

    method: str
    minutes: int
    seed: int

    @property
    def label(self) -> str:
        """Method, refits and seed."""
        return f"{self.series}, seed {self.seed}"

    @property
    def series(self) -> str:
        """The name of its curve."""
        return f"{self.method}, {self.minutes} min"

    @property
    def platform(self) -> DriftingPlatform:
        """Nothing moves but at the jump."""
        return DriftingPlatform(_CAMPAIGNS, _IMPRESSIONS, _CTR, self.seed, _DISTORTIONS)

    @property
    def hours(self) -> int:
        """Those before the first scored one too."""
        return self.platform.paths.global_jump_hour - BEFORE + SCORED

    def run(self, hour_done: HourDone, /) -> TaskResult:
        """See `Task`."""
        results = prequential(
            self.platform, [METHODS[self.method]()], first_scored=self.hours - SCORED,
            scored_hours=SCORED, minutes=self.minutes, seed=self.seed, progress=hour_done,
        )  # fmt: skip
        return TaskResult(results, {})


def drift_tasks(seeds: Sequence[int]) -> list[DriftTask]:
    """A run for each curve and seed."""
    return [DriftTask(who, minutes, seed) for who, minutes in _REFITS for seed in seeds]


def drift_curves(tasks: Sequence[DriftTask], found: Sequence[TaskResult]) -> DriftCurves:
    """The mean over the seeds of each curve."""
    curves: dict[str, list[list[float]]] = {}
    for task, done in zip(tasks, found, strict=True):
        curve = dict(done.results.curve(task.method))
        hours = [curve.get(hour, float("nan")) for hour in range(SCORED)]
        curves.setdefault(task.series, []).append(hours)
    hours = [float(hour - BEFORE) for hour in range(SCORED)]
    seeds = list(dict.fromkeys(task.seed for task in tasks))
    return DriftCurves(ABOUT, hours, _means(curves), seeds)


def _means(curves: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, list[float]]:
    return {name: np.mean(seeds, axis=0).tolist() for name, seeds in curves.items()}


@dataclass(frozen=True, slots=True)
class LeaderboardRun:
    """How methods are compared.

    methods : their names.
    draws : of campaign-days, for the intervals.
    processes : runs at a time.
    quiet : whether no progress is shown.
    """

    methods: Sequence[str]
    draws: int
    processes: int
    quiet: bool

    def of_regimes(
        self, regimes: Sequence[str], seeds: int, scored: int | None, *, drift: bool
    ) -> Leaderboard:
        """Synthetic traffic of each regime and seed, and a jump too if requested."""
        runs = [
            RegimeTask(name, seed, self.methods, scored)
            for name in regimes
            for seed in range(seeds)
        ]
        jumps = drift_tasks(range(seeds)) if drift else []
        done = run_tasks([*runs, *jumps], self.processes, shown=not self.quiet)
        found = [
            self._regime(name, done[place * seeds : (place + 1) * seeds])
            for place, name in enumerate(regimes)
        ]
        return Leaderboard(found, [_origin()], _curves(jumps, done[len(runs) :]))

    def of_log(
        self, log: Where, columns: LogColumns, reading: Reading, window: WindowOptions
    ) -> Leaderboard:
        """The hours of a log that have a whole window before them."""
        name = name_of(log)
        with percent_bar(f"reading {name}", shown=not self.quiet) as reached:
            events = read_events(log, columns, reached, MOST_ROWS, reading).events
        note_skipped(reading)
        first_evaluated_hour(events, window.hours)
        task = LogTask(name, events, self.methods, window)
        done = run_tasks([task], 1, shown=not self.quiet)
        about = f"windows of {window.hours} h, bins of {window.bin_size:,}"
        found = traffic_result(name, about, len(events.campaigns), done, self.draws)
        return Leaderboard([found], [_origin()])

    def _regime(self, name: str, done: Sequence[TaskResult]) -> TrafficResult:
        regime = REGIMES[name]
        return traffic_result(name, regime.description, regime.campaigns, done, self.draws)


def _curves(tasks: Sequence[DriftTask], done: Sequence[TaskResult]) -> DriftCurves | None:
    return drift_curves(tasks, done) if tasks else None


def _origin() -> Origin:
    return Origin(typed_command(), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", machine())


_USUAL: Final = WindowOptions()


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options as they were given; None where one was not."""

    logs: Sequence[Where]
    regimes: str | None
    seeds: int | None
    methods: str | None
    scored: int | None
    drift: bool
    processes: int | None
    kept: Sequence[Path]
    window: int | None
    bin_size: int | None
    draws: int | None


def run_leaderboard(
    options: CompareOptions, columns: LogColumns, reading: Reading, outputs: Outputs
) -> None:
    """Run or read, then show; a `CommandError` for what does not go together."""
    if options.draws == 0:
        raise CommandError("--draws 0: must be at least 1 with --compare")
    outputs.check()
    if options.kept:
        report_leaderboard(_kept(options), outputs)
        return
    leaderboard = LeaderboardRun(
        chosen_methods(options.methods), options.draws or DRAWS, options.processes or 1,
        outputs.as_json,
    )  # fmt: skip
    found = (
        _of_log(leaderboard, options, columns, reading)
        if options.logs
        else _of_regimes(leaderboard, options)
    )
    report_leaderboard(found, outputs)


def _kept(options: CompareOptions) -> Leaderboard:
    given = {
        "LOG": options.logs or None,
        "--regimes": options.regimes,
        "--seeds": options.seeds,
        "--contenders": options.methods,
        "--drift": options.drift or None,
        "--processes": options.processes,
        "--draws": options.draws,
        "--judged": options.scored,
        "--window": options.window,
        "--bin-size": options.bin_size,
    }
    refuse(given, "does not go with --from: it shows what was run")
    return merged([read_result(path) for path in options.kept])


def _of_log(
    leaderboard: LeaderboardRun, options: CompareOptions, columns: LogColumns, reading: Reading
) -> Leaderboard:
    given = {
        "--regimes": options.regimes,
        "--seeds": options.seeds,
        "--judged": options.scored,
        "--drift": options.drift or None,
        "--processes": options.processes,
    }
    refuse(given, "goes with synthetic regimes, not with a log")
    if len(options.logs) != 1:
        raise CommandError(f"{len(options.logs)} logs are given: --compare takes one, or none")
    window = WindowOptions(options.window or _USUAL.hours, options.bin_size or _USUAL.bin_size)
    return leaderboard.of_log(options.logs[0], columns, reading, window)


def _of_regimes(leaderboard: LeaderboardRun, options: CompareOptions) -> Leaderboard:
    given = {"--window": options.window, "--bin-size": options.bin_size}
    refuse(given, "goes with a log, not with synthetic regimes")
    only_drift = options.drift and options.regimes is None
    regimes = [] if only_drift else chosen("--regimes", options.regimes, list(REGIMES))
    return leaderboard.of_regimes(regimes, options.seeds or 1, options.scored, drift=options.drift)
