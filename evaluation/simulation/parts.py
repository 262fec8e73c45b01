"""Parts of synthetic platforms: campaigns, their traffic by hour, swings of a level; fields and
what they do; how late conversions come, and what of it changes.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from calibrators.samples import Floats, Integers, check_rules
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


_TARGETING = 0.5
"""Standard deviation of a campaign's log-shares of a field's values around those of all."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of impressions.

    values : how many it has, at least 2.
    effect : standard deviation of their effects in log-odds, under the mix of the traffic.
    skew : the share of value k is in proportion to 1 / k^skew; 0: all alike.
    by_campaign : whether all impressions of a campaign have one value, as of an advertiser.
    """

    name: str
    values: int
    effect: float = 0.0
    skew: float = 0.7
    by_campaign: bool = False

    def __post_init__(self) -> None:
        check_rules(
            self,
            values=(self.values >= 2, "at least 2"),
            effect=(0 <= self.effect < np.inf, "at least 0, finite"),
            skew=(0 <= self.skew < np.inf, "at least 0, finite"),
        )

    @property
    def value_names(self) -> tuple[str, ...]:
        """Names of the values, which codes point at: "device-1", padded to sort by number."""
        width = len(str(self.values))
        return tuple(f"{self.name}-{number:0{width}d}" for number in range(1, self.values + 1))

    def mix(self, campaigns: int, rng: np.random.Generator) -> Floats:
        """Log-shares of the values in each campaign's traffic, (c, v)."""
        common = -self.skew * np.log(np.arange(1, self.values + 1))
        shape = (campaigns, self.values)
        if not self.by_campaign:
            return np.asarray(common + rng.normal(0.0, _TARGETING, shape))
        owners = rng.choice(self.values, campaigns, p=softmax(common))
        mix = np.full(shape, -np.inf)
        mix[np.arange(campaigns), owners] = 0.0
        return mix

    def effects(self, shares: Floats, rng: np.random.Generator) -> Floats:
        """Effect of each value, (v,), of mean 0 where they have these shares of the traffic."""
        drawn = standardised(rng.normal(size=(self.values, 1)), shares, np.ones(1))
        return np.asarray(drawn[:, 0] * self.effect)


def value_shares(mix: Floats) -> Floats:
    """Share of each value, (v,), in all the traffic; log-shares by campaign, (c, v)."""
    return np.asarray(zipf_shares(len(mix)) @ softmax(mix, axis=1))


def value_codes(mix: Floats, rows: Rows | Integers, rng: np.random.Generator) -> Integers:
    """The value of each impression, (n,), drawn from its campaign's log-shares, (c, v)."""
    shares, rows = softmax(mix, axis=1), np.asarray(rows, np.int64)
    # One sorted list of all campaigns' cumulated shares, campaign k's within (k, k + 1].
    ends = (np.cumsum(shares, axis=1) + np.arange(len(mix))[:, np.newaxis])[:, :-1]
    drawn = np.searchsorted(ends.ravel(), rows + rng.random(len(rows)), side="right")
    return np.asarray(drawn - rows * (mix.shape[1] - 1))


def standardised(drawn: Floats, rows: Floats, columns: Floats) -> Floats:
    """A table, (v, w), with weighted mean 0 in every row and column (one column: in all), and
    weighted standard deviation 1; weights (v,) and (w,) with sum 1."""
    centred = drawn - rows @ drawn
    if len(columns) > 1:
        centred = centred - (centred @ columns)[:, np.newaxis]
    return np.asarray(centred / np.sqrt(rows @ centred**2 @ columns))
