"""History on the scale of a new model: the scores of the hours before it moved, quantile by
quantile, to where it puts them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.maps.atlas import Atlas
from calibrators.pooled.cells import FARTHEST, Cells, log_odds
from calibrators.samples import Floats, Integers, sum_at
from calibrators.scipy_functions import expit

_SHARES: Floats = expit(np.linspace(-6.5, 6.5, 27))
"""Of the impressions, below the knots of a transport."""

_FEWEST_BEYOND = 8.0
"""Impressions beyond the outermost knots."""

_FLATTEST, _STEEPEST = 0.4, 2.5
"""Slopes of a transport beyond its knots."""

_LEAST_STEP = 1e-3
_ROUNDS = 5
_HALF_LIFE = 12.0
"""Hours before a push in which what tells its old scores loses half its weight."""


@dataclass(frozen=True, slots=True, eq=False)
class Transport:
    """A rising map of log-odds, straight between its knots and beyond them, and what each campaign
    adds: (k,) and (c,).

    Source: quantile matching, or optimal transport on the line (Villani, Topics in Optimal
    Transportation, 2003, 2.2); the campaigns' levels are normal, by empirical Bayes.
    """

    before: Floats
    after: Floats
    levels: Floats

    @classmethod
    def of(cls, rows: Integers, values: Floats, old: Floats, new: Floats, size: int) -> Self:
        """From the cells of `size` campaigns: the campaign of each, its log-odds, and impressions
        before and after, (m,) each. The identity where no campaign has both."""
        counts = np.stack([sum_at(rows, each, size) for each in (old, new)])
        held = np.asarray((counts > 0).all(axis=0))
        if not held.any():
            return cls(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]), np.zeros(size))
        safe = np.where(held, counts, 1.0)
        both = held * safe[0] * safe[1] / (safe[0] + safe[1])
        # Each campaign counts as much before as after, so that no mix of campaigns is a shift.
        weights = [
            each * (both / count)[rows] for each, count in zip((old, new), safe, strict=True)
        ]
        shares = _shares(float(safe[1][held].sum()))
        before = _quantiles(values, weights[0], shares)
        found = cls(before, before, np.zeros(size))
        moments = _Moments.of(rows, values, new, safe[1])
        for _ in range(_ROUNDS):
            after = _rising(_quantiles(values - found.levels[rows], weights[1], shares))
            found = cls(_rising(before), after, found.levels)
            moved = sum_at(rows, old * found.common(values), size) / safe[0]
            residuals = np.where(held, moments.means - moved, 0.0)
            noise = moments.variances * (1 / safe[0] + 1 / safe[1])
            found = cls(found.before, after, _shrunk(residuals, noise, held))
        return found

    def common(self, values: Floats) -> Floats:
        """Log-odds, (m,), as the new model has those of a campaign that is like all others."""
        low, high = self._slopes
        inside = np.interp(values, self.before, self.after)
        below = np.minimum(values - self.before[0], 0.0) * low
        above = np.maximum(values - self.before[-1], 0.0) * high
        return np.asarray(inside + below + above)

    def __call__(self, values: Floats, rows: Integers) -> Floats:
        """Log-odds of these campaigns, (m,), -1 being any other, as the new model has them."""
        levels = np.append(self.levels, 0.0)
        return np.asarray(np.clip(self.common(values) + levels[rows], -FARTHEST, FARTHEST))

    @property
    def _slopes(self) -> tuple[float, float]:
        """Below and above the knots: those of the outer quarters of the knots."""
        steps = max(len(self.before) // 4, 1)
        low = (self.after[steps] - self.after[0]) / (self.before[steps] - self.before[0])
        ends = self.after[-1] - self.after[-1 - steps], self.before[-1] - self.before[-1 - steps]
        slopes = np.clip((low, ends[0] / ends[1]), _FLATTEST, _STEEPEST)
        return float(slopes[0]), float(slopes[1])


class _Moments(NamedTuple):
    means: Floats
    variances: Floats

    @classmethod
    def of(cls, rows: Integers, values: Floats, counts: Floats, totals: Floats) -> Self:
        means = sum_at(rows, counts * values, len(totals)) / totals
        squares = sum_at(rows, counts * (values - means[rows]) ** 2, len(totals))
        # What few impressions show too little of is made good by all.
        usual = squares.sum() / max(float(counts.sum()), 1.0)
        return cls(means, (squares + 10 * usual) / (totals + 10))


def _shares(impressions: float) -> Floats:
    least = min(_FEWEST_BEYOND / impressions, 0.25)
    outer = np.minimum(_SHARES, 1 - _SHARES) < least
    return np.asarray(_SHARES[~outer])


def _quantiles(values: Floats, weights: Floats, shares: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    ascending, weight = values[order], weights[order]
    middles = np.cumsum(weight) - weight / 2
    held = weight > 0
    return np.asarray(np.interp(shares * weight.sum(), middles[held], ascending[held]))


def _rising(values: Floats) -> Floats:
    steps = _LEAST_STEP * np.arange(len(values))
    return np.asarray(np.maximum.accumulate(values - steps) + steps)


def _shrunk(residuals: Floats, noise: Floats, held: NDArray[np.bool_]) -> Floats:
    """The residuals as far as they are more than noise."""
    variance = 0.1
    for _ in range(20):
        weights = held / (noise + variance) ** 2
        excess = (weights * (residuals**2 - noise)).sum() / weights.sum()
        variance = max(float(excess), 1e-6)
    return np.asarray(residuals * variance / (variance + noise))


@dataclass(frozen=True)
class Transports:
    """From the hours before pushes to the newest hours, by which the old ones are moved.

    campaigns : their names, whose levels the transports have in this order.
    first : the first hour of the window, since 1970.
    pushes : the hours from which on another model scored, ascending, one at least, since 1970.
    steps : for each push, how what was scored before it and after the one before it, is moved.
    """

    campaigns: tuple[str, ...]
    first: int
    pushes: tuple[int, ...]
    steps: tuple[Transport, ...]

    @classmethod
    def of(cls, blocks: Sequence[Cells], first: int, pushes: Sequence[int]) -> Self:
        """From the cells of a window; pushes counted from its first hour."""
        names = tuple(name for block in blocks for name in block.campaigns)
        sizes = np.cumsum([0, *(len(block) for block in blocks)])
        rows = np.concatenate(
            [block.hours.rows + size for block, size in zip(blocks, sizes, strict=False)]
        )
        values = np.concatenate([block.log_odds for block in blocks])
        length = blocks[0].hours.shape[1]
        new = _counts(blocks, 1.0 * (np.arange(length) >= pushes[-1]))
        steps = []
        for begun, ended in pairwise([0, *pushes]):
            since = ended - np.arange(length)
            weights = np.exp2(-since / _HALF_LIFE) * ((since > 0) & (since <= ended - begun))
            old = _counts(blocks, weights)
            # As many as they were, for what chance does in them.
            old *= _counts(blocks, 1.0 * (weights > 0)).sum() / max(float(old.sum()), 1e-300)
            steps.append(Transport.of(rows, values, old, new, len(names)))
        return cls(names, first, tuple(first + push for push in pushes), tuple(steps))

    def moved(self, blocks: Sequence[Cells]) -> tuple[Cells, ...]:
        """The same cells, what they held before the newest push being where it is scored now."""
        found, behind = [], 0
        for block in blocks:
            rows = block.hours.rows + behind
            moved = [step(block.log_odds, rows) for step in self.steps]
            places = np.stack([*moved, block.log_odds])
            hours = np.arange(block.hours.shape[1]) + self.first
            found.append(block.moved(places, np.searchsorted(self.pushes, hours, side="right")))
            behind += len(block)
        return tuple(found)

    def atlas(self, atlas: Atlas, newest: int) -> Atlas:
        """An atlas on the scale of the newest scores, that was fitted to scores up to the hour
        `newest`: the same probabilities for the same quantiles."""
        number = int(np.searchsorted(self.pushes, newest, side="right"))
        if number == len(self.steps):
            return atlas
        step = self.steps[number]
        own = [self._rows.get(name, -1) for name in atlas.campaigns]
        shared = len(atlas.columns()) - 1 - len(own)
        of_row = np.array([-1, *own, *[-1] * shared], np.int64)
        return atlas.at_scores(lambda rows, scores: expit(step(log_odds(scores), of_row[rows])))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.campaigns)}


def _counts(blocks: Sequence[Cells], weights: NDArray[np.floating[Any]]) -> Floats:
    """Samples of all cells, hours having these weights, (h,)."""
    parts = [
        block.hours.weighted(np.broadcast_to(weights, block.hours.shape))[0] for block in blocks
    ]
    return np.concatenate(parts)
