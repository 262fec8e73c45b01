"""How levels may move: models of a local level, with a damped trend or a daily cycle or neither."""

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from calibrators.samples import Floats, Integers

_STEPS = (0.0, 2.5e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2)
_TRENDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
_PERSISTENCE = (0.9, 0.95)
_CYCLES = (0.01, 0.04, 0.16)
_STEPS_OF_CYCLES = (0.0, 1e-4, 1.6e-3, 6.4e-3)


@dataclass(frozen=True, eq=False)
class LevelModels:
    """A local level with a damped trend, or a daily cycle: n ways of moving, each an array (n, 1).

    steps : variance of an hour's random step of the level, in log ratio.
    trends : variance of an hour's random step of the trend, in log ratio an hour.
    persistence : the share of a trend that is left after an hour, in [0, 1).
    cycles : variance of each of the two amplitudes of the day's wave, in log ratio; 0 for none.
    waves : how many the daily cycle has: of a day, of half a day, and so on.

    Source: Harrison and Stevens, JRSS B 38, 1976; damped: Gardner and McKenzie, Management Science
    31, 1985; seasonal effects in Fourier form: West and Harrison, Bayesian Forecasting and Dynamic
    Models, 1997, section 8.6.
    """

    steps: Floats
    trends: Floats
    persistence: Floats
    cycles: Floats
    waves: Floats

    @classmethod
    def of(cls, rows: list[tuple[float, float, float, float, int]]) -> "LevelModels":
        """From a row (step, trend, persistence, cycle, waves) each."""
        return cls(*np.array(rows, np.float64).reshape(-1, 5).T[:, :, None])

    def chosen(self, rows: Integers) -> "LevelModels":
        """Some of them."""
        return LevelModels(*(column[rows] for column in self.columns))

    @property
    def columns(self) -> tuple[Floats, ...]:
        """All five, in order."""
        return self.steps, self.trends, self.persistence, self.cycles, self.waves

    @cached_property
    def ordinary(self) -> Floats:
        """The variance of a trend that has gone on for long, (n, 1)."""
        return np.asarray(self.trends / (1 - self.persistence**2))

    @cached_property
    def trending(self) -> slice:
        """Where all are that have a trend."""
        return _span(self.trends)

    @cached_property
    def cycling(self) -> slice:
        """Where all are that have a cycle."""
        return _span(self.cycles)

    @cached_property
    def most_waves(self) -> int:
        """Of any cycle."""
        return int(self.waves[self.cycling].max(initial=0))

    @cached_property
    def prior_logs(self) -> Floats:
        """Half of the belief is that there is no cycle, and half of either that levels stay; up to
        a constant, (n,)."""
        cycle, moves = self.cycles[:, 0] > 0, (self.steps + self.trends)[:, 0] > 0
        logs = np.zeros(len(cycle))
        for some in (cycle & moves, cycle & ~moves, ~cycle & moves, ~cycle & ~moves):
            logs[some] = -log(max(int(some.sum()), 1))
        return logs


def _span(column: Floats) -> slice:
    """From the first to the last that is not 0."""
    found = np.flatnonzero(column).tolist() or [0, -1]
    return slice(found[0], found[-1] + 1)


def level_models(*waves: int) -> LevelModels:
    """First a level that stays, then those that wander by half to 16 percent an hour, then those
    that go their way for ten or twenty hours; last those that have a daily cycle besides, of each
    of these numbers of waves."""
    return LevelModels.of(
        [
            *((step, 0.0, 0.0, 0.0, 0) for step in _STEPS),
            *((0.0, trend, share, 0.0, 0) for share in _PERSISTENCE for trend in _TRENDS),
            *(
                (step, 0.0, 0.0, cycle, count)
                for count in waves
                for cycle in _CYCLES
                for step in _STEPS_OF_CYCLES
            ),
        ]
    )


OF_CAMPAIGNS = level_models(2)
"""Their daily cycles have waves of a day, and of half a day."""
