"""Campaigns of equal traffic whose ratio of true to expected positives drifts, and may jump, in
slots of five minutes; what is lost on them when they are refitted every so often."""

from dataclasses import dataclass, replace

import numpy as np

from calibrators.pooled.campaign_hours import CampaignHours
from calibrators.pooled.change_points import hour_weights
from calibrators.pooled.levels import LevelHierarchy
from calibrators.samples import Floats

SLOTS = 12
"""In an hour."""

WINDOW = 48
"""Hours that are looked at, and hours before the first jump."""

_SHAPE_POSITIVES = 20.0
_SHAPE_HALF_LIFE = 24.0


@dataclass(frozen=True, slots=True)
class Campaigns:
    """By campaign and slot: expected positives, true means and drawn positives, (c, s) each."""

    expected: Floats
    true: Floats
    observed: Floats

    def hours_until(self, now: int) -> tuple[Floats, Floats, Floats]:
        """Expected and observed positives by hour, (c, h), of the slots before `now`, and ages,
        (h,); the last hour may be part-filled."""
        begins = np.arange(0, now, SLOTS)[-WINDOW:]
        ages = (now - (begins + np.append(begins[1:], now)) / 2) / SLOTS
        expected, observed = (
            np.add.reduceat(slots[:, :now], begins, axis=1)
            for slots in (self.expected, self.observed)
        )
        return expected, observed, ages


def drawn(positives: float, logs: Floats, rng: np.random.Generator) -> Campaigns:
    """Of `positives` an hour on average, with a day's cycle, at log ratios of (c, s)."""
    traffic = positives / SLOTS * (1 + 0.5 * np.sin(2 * np.pi * hours_of(logs) / 24))
    expected = traffic * rng.gamma(25.0, 1 / 25.0, logs.shape)
    true = expected * np.exp(logs)
    return Campaigns(expected, true, rng.poisson(true).astype(np.float64))


def hours_of(logs: Floats) -> Floats:
    """The hour of each slot, (s,)."""
    return np.arange(logs.shape[1]) / SLOTS


def walks(shape: tuple[int, int], step: float, rng: np.random.Generator) -> Floats:
    """Log ratios that move by `step` an hour, a random walk."""
    return np.cumsum(rng.normal(0, step / SLOTS**0.5, shape), axis=1)


def cycles(shape: tuple[int, int], height: float, rng: np.random.Generator) -> Floats:
    """Log ratios that follow the day, each campaign at hours of its own."""
    hours = np.arange(shape[1]) / SLOTS
    return height * np.sin(2 * np.pi * (hours / 24 + rng.random((shape[0], 1))))


def jumps(count: int, after: int, size: float, rng: np.random.Generator) -> Floats:
    """Log ratios of campaigns half of which jump at any minute of the first of `after` hours, every
    second of them up by `size`, the others down."""
    begins = SLOTS * WINDOW + rng.integers(0, SLOTS, (count, 1))
    sizes = size * np.resize([1.0, 0.0, -1.0, 0.0], (count, 1))
    return np.where(np.arange(SLOTS * (WINDOW + after)) >= begins, sizes, 0.0)


def excess(seen: Campaigns, minutes: int, weighted: bool) -> Floats:
    """Log loss over that of the truth, in nats, (c, s), from `WINDOW` on: what is served is
    refitted every so many minutes."""
    lost = np.zeros_like(seen.expected)
    step = minutes * SLOTS // 60
    for first in range(SLOTS * WINDOW, seen.expected.shape[1], step):
        slots = slice(first, first + step)
        mean = seen.expected[:, slots] * _served(seen, first, weighted)[:, None]
        true = seen.true[:, slots]
        lost[:, slots] = true * np.log(true / mean) - true + mean
    return lost


def _served(seen: Campaigns, now: int, weighted: bool) -> Floats:
    """The ratio of each campaign, (c,): a stand-in for the shape, its level over the window, drawn
    to that of all, and the fast levels on it."""
    expected, observed, ages = seen.hours_until(now)
    hours = hour_weights(expected, observed, ages)
    if not weighted:
        hours = replace(hours, weights=np.ones(expected.shape), begun=np.ones(expected.shape))
    recent = hours.weights * np.exp2(-ages / _SHAPE_HALF_LIFE)
    y, e = (observed * recent).sum(axis=1), (expected * recent).sum(axis=1)
    usual = y.sum() / e.sum()
    own = (y + _SHAPE_POSITIVES) / (usual * e + _SHAPE_POSITIVES)
    shape = usual * own
    variances = np.full(len(own), np.mean(np.log(own) ** 2))
    levels = {"fitted": np.log(own), "variances": variances}
    block = CampaignHours.of(expected * shape[:, None], observed, **levels)
    block = block._replace(weights=hours.weights, begun=hours.begun)
    found = LevelHierarchy.of([block], ages).levels([block])
    return np.asarray(shape * np.exp(found.shifts))
