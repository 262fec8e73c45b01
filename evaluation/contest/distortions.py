"""What is wrong with the scores of a contest's platform, in log-odds and campaign by campaign."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats, Integers

SPREAD = 0.8
"""Standard deviation of a campaign's scores in log-odds."""

_TOP, _BEND_WIDTH = 1.0, 0.5
_WAVES = 2.2
_FLATTEST, _STEEPEST = -0.35, 0.6
_HIGHEST_WAVE = 0.12
_RUNGS = 6
_RUNG_SLOPES = (0.0, 0.0, 0.4, 1.0, 2.5)


@dataclass(frozen=True, slots=True)
class Distortions:
    """How far scores are from the truth, in log-odds; 0 of each: scores are true.

    Attributes
    ----------
    level : standard deviation of the campaigns' levels; a tenth of it is everyone's.
    slope : standard deviation of the campaigns' slopes around 1.
    wave : standard deviation of the heights of the campaigns' smooth waves, .12 at most.
    bend : slope lost at the top, where ads win because their score was too high.
    rungs : whether each campaign's curve is a staircase of its own instead: steps, kinks, plateaus.
    drift : height of the campaigns' slow swings.
    walk : standard deviation of an hour's step of everyone's random walk.
    day : height of everyone's daily swing.
    jumps : expected jumps of a campaign's level, in hours 24 to 120.
    jump : standard deviation of such a jump.
    global_jump : size of everyone's jump, between hours 56 and 80.
    """

    level: float = 0.0
    slope: float = 0.0
    wave: float = 0.0
    bend: float = 0.0
    rungs: bool = False
    drift: float = 0.0
    walk: float = 0.0
    day: float = 0.0
    jumps: float = 0.0
    jump: float = 0.0
    global_jump: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The campaigns' distortions that stay: levels, slopes and wave heights and phases, (c,) each,
    and their staircases, if any. Each curve plus the score itself never falls."""

    rules: Distortions
    levels: Floats
    slopes: Floats
    heights: Floats
    phases: Floats
    stairs: "Stairs | None"

    @classmethod
    def draw(cls, campaigns: int, rules: Distortions, rng: np.random.Generator) -> Self:
        """Curves of that many campaigns."""
        everyone = rng.choice((-0.1, 0.1)) * rules.level
        return cls(
            rules,
            everyone + rng.normal(0.0, rules.level, campaigns),
            np.clip(rng.normal(0.0, rules.slope, campaigns), _FLATTEST, _STEEPEST),
            np.clip(rng.normal(0.0, rules.wave, campaigns), -_HIGHEST_WAVE, _HIGHEST_WAVE),
            rng.uniform(0.0, 2.0 * np.pi, campaigns),
            Stairs.draw(campaigns, rng) if rules.rungs else None,
        )

    def at(self, rows: Integers, centres: Floats, deviations: Floats) -> Floats:
        """What the truth has more than the score, (n,), of scores that are `deviations` from their
        campaign's centre, itself `centres` from everyone's."""
        curved = self.levels[rows] + self._shape(rows, deviations)
        if self.rules.bend:
            above = (centres + deviations - _TOP) / _BEND_WIDTH
            curved -= self.rules.bend * _BEND_WIDTH * np.logaddexp(0.0, above)
        return curved

    def _shape(self, rows: Integers, deviations: Floats) -> Floats:
        if self.stairs is not None:
            return self.stairs.at(rows, deviations) - deviations
        waves = self.heights[rows] * np.sin(_WAVES * deviations + self.phases[rows])
        return self.slopes[rows] * deviations + waves


@dataclass(frozen=True, slots=True, eq=False)
class Stairs:
    """Staircases that never fall: where each rung begins, (c, r), its height there and its slope,
    (c, r + 1) each; left of the first rung the height counts from it."""

    begins: Floats
    heights: Floats
    slopes: Floats

    @classmethod
    def draw(cls, campaigns: int, rng: np.random.Generator) -> Self:
        """Half of the rungs begin with a step up; two of five are level."""
        begins = np.sort(rng.uniform(-2.0, 2.0, (campaigns, _RUNGS)) * SPREAD, axis=1)
        slopes = rng.choice(_RUNG_SLOPES, (campaigns, _RUNGS + 1))
        steps = rng.uniform(0.2, 0.8, begins.shape) * (rng.random(begins.shape) < 0.5)
        rises = np.diff(begins, axis=1) * slopes[:, 1:-1]
        heights = np.cumsum(steps, axis=1)
        heights[:, 1:] += np.cumsum(rises, axis=1)
        wide = (begins[:, -1:] - begins[:, :1]) / np.maximum(heights[:, -1:], 0.2)
        wide *= rng.uniform(0.7, 1.1, (campaigns, 1))
        heights = np.concatenate([np.zeros((campaigns, 1)), heights], axis=1) * wide
        # Around the middle of each staircase, so that it moves no campaign's level by itself.
        return cls(begins, heights - heights.mean(axis=1, keepdims=True), slopes * wide)

    def at(self, rows: Integers, deviations: Floats) -> Floats:
        """Height of the staircase of each row at its deviation, (n,)."""
        begins = self.begins[rows]
        rungs = (deviations[:, np.newaxis] >= begins).sum(axis=1)
        starts = np.take_along_axis(begins, np.maximum(rungs - 1, 0)[:, np.newaxis], axis=1)[:, 0]
        rises: Floats = self.slopes[rows, rungs] * (deviations - starts)
        heights: Floats = self.heights[rows, rungs]
        return heights + rises
