"""How long a jump hurts, by the time between refits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.command_line.contest_result import DriftCurves
from app.command_line.contest_run import Done, HourPlayed
from evaluation.contest import CONTENDERS, Distortions, DriftingPlatform, play

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
