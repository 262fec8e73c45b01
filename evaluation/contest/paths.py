"""How levels move from hour to hour on a contest's platform: drift, days and jumps."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.contest.distortions import Distortions

HOURS: Final = 240
"""Hours that a platform has."""

_MOST_JUMPS = 2
_FIRST_JUMP, _LAST_JUMP = 24, 120
_FIRST_GLOBAL_JUMP, _LAST_GLOBAL_JUMP = 56, 80


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Everyone's level by hour, (HOURS,); the campaigns' swings and jumps, (2, c) each."""

    everyone: Floats
    drift: float
    periods: Floats
    phases: Floats
    jump_hours: Integers
    jump_sizes: Floats
    global_jump_hour: int

    @classmethod
    def draw(cls, campaigns: int, rules: Distortions, rng: np.random.Generator) -> Self:
        """Paths of that many campaigns."""
        shape = (_MOST_JUMPS, campaigns)
        at = int(rng.integers(_FIRST_GLOBAL_JUMP, _LAST_GLOBAL_JUMP + 1))
        jumped = rng.random(shape) < rules.jumps / _MOST_JUMPS
        return cls(
            everyone=_everyone(rules, at, rng),
            drift=rules.drift,
            periods=np.stack((rng.uniform(30, 60, campaigns), rng.uniform(60, 200, campaigns))),
            phases=rng.uniform(0.0, 2.0 * np.pi, shape),
            jump_hours=rng.integers(_FIRST_JUMP, _LAST_JUMP, shape),
            jump_sizes=np.where(jumped, rng.normal(0.0, rules.jump, shape), 0.0),
            global_jump_hour=at,
        )

    def levels(self, hour: int) -> Floats:
        """How far each campaign's level has moved, (c,); ValueError beyond the last hour."""
        if not 0 <= hour < HOURS:
            raise ValueError(f"hour = {hour}: must be at least 0 and below {HOURS}")
        swings = np.sin(2.0 * np.pi * hour / self.periods + self.phases).sum(axis=0)
        jumps = np.where(hour >= self.jump_hours, self.jump_sizes, 0.0).sum(axis=0)
        moved: Floats = self.everyone[hour] + self.drift * swings + jumps
        return moved


def _everyone(rules: Distortions, jump_hour: int, rng: np.random.Generator) -> Floats:
    hours = np.arange(HOURS)
    walk = np.cumsum(rng.normal(0.0, rules.walk, HOURS))
    day = rules.day * np.sin(2.0 * np.pi * hours / 24.0 + rng.uniform(0.0, 2.0 * np.pi))
    jump = rng.choice((-1.0, 1.0)) * rules.global_jump * (hours >= jump_hour)
    return np.asarray(walk + day + jump)
