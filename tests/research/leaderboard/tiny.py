"""Traffic and methods small enough to be checked by hand."""

from dataclasses import dataclass, field

import numpy as np

from evaluation.backtest.event_table import EventTable
from evaluation.simulation.ad_platform import Platform, PlatformHour
from research.leaderboard import LogTraffic

TINY = Platform(campaigns=6, impressions_per_hour=300, ctr=0.1, seed=3)


@dataclass
class Fixed:
    """Serves four probabilities by score and campaign, whatever it has seen; notes what it saw."""

    name: str = "fixed"
    note: str = "knows nothing"
    factor: float = 1.0
    seen: list = field(default_factory=list)

    def refit(self, history, campaigns, /):
        tables = {}
        for block in history.blocks:
            for hour, table in block.items():
                samples, positives = table.totals()
                known = tables.get(hour, (0.0, 0.0))
                tables[hour] = (known[0] + samples.sum(), known[1] + positives.sum())
        self.seen.append((history.as_of, tables))
        return self.serve

    def serve(self, rows, scores):
        steps = np.floor(np.clip(scores * 20.0, 0.0, 3.0))
        return np.minimum(self.factor * (0.02 + 0.07 * steps + 0.01 * rows), 1.0)


@dataclass(frozen=True)
class Poisoned:
    """A platform that goes mad at an hour: all outcomes turn, scores too."""

    platform: Platform
    hour_of_poison: int

    @property
    def start(self):
        return self.platform.start

    @property
    def names(self):
        return self.platform.names

    def hour(self, hour, /):
        drawn = self.platform.hour(hour)
        if hour < self.hour_of_poison:
            return drawn
        events = drawn.events
        turned = EventTable(
            events.times, events.campaigns, events.rows, events.scores, 1.0 - events.outcomes
        )
        return PlatformHour(turned, drawn.truth)


def log_of(platform, hours):
    """The same impressions as a log, and as traffic of that log."""
    table = platform.hours(0, hours).events
    return table, LogTraffic.of(table)
