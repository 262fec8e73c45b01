"""Parts of synthetic platforms: campaigns, their traffic by hour, swings of a level."""

import numpy as np

from calibrators.samples import Floats
from evaluation.backtest.event_table import SECONDS_PER_HOUR, Rows

SPREAD = 0.8
"""Standard deviation of a campaign's scores in log-odds."""

START = 1_735_689_600.0
"""Epoch seconds at which hour 0 begins unless said: 2025-01-01, midnight UTC."""


def campaign_names(campaigns: int) -> tuple[str, ...]:
    """The campaigns' names, padded so that they sort by number."""
    width = len(str(campaigns))
    return tuple(f"campaign-{number:0{width}d}" for number in range(1, campaigns + 1))


def zipf_shares(campaigns: int) -> Floats:
    """Shares of the traffic, (c,), in proportion to 1 / k for campaign k."""
    shares = 1.0 / np.arange(1, campaigns + 1)
    return np.asarray(shares / shares.sum())


def day_cycle(hour: int) -> float:
    """Traffic of an hour of the day over that of an average hour; most at 15:00."""
    return float(1.0 + 0.4 * np.sin(2.0 * np.pi * (hour - 9) / 24.0))


def arrivals(expected: Floats, rng: np.random.Generator) -> Rows:
    """The campaign of each event of an hour, (n,), in random order; expected events, (c,)."""
    counts = rng.poisson(expected)
    return rng.permutation(np.repeat(np.arange(len(expected), dtype=np.int32), counts))


def times_in(start: float, hour: int, n: int, rng: np.random.Generator) -> Floats:
    """Times of n events of an hour, (n,), ascending, epoch seconds."""
    return np.asarray(start + SECONDS_PER_HOUR * (hour + np.sort(rng.random(n))))


def outcomes_of(truth: Floats, rng: np.random.Generator) -> Floats:
    """1 with the probability of each, else 0, (n,)."""
    return (rng.random(len(truth)) < truth).astype(np.float64)


def swings(periods: Floats, phases: Floats, hour: int) -> Floats:
    """How far each swing has come from where it was at hour 0, (swings, campaigns); periods in
    hours."""
    return np.asarray(np.sin(2.0 * np.pi * hour / periods + phases) - np.sin(phases))
