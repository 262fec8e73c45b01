"""How often a push of a model is found where there was none, and how soon where there was one.

Traffic is stationary but for the cycles of a day: in each hour the campaigns' impressions are
Poisson, and so are the scores that they get. Where a cycle is "common", the scores of all campaigns
rise and fall together, as other users come in the morning; where it is "own", each campaign's at
hours of its own. Scores are true: clicks follow them. Windows of 48 hours are read as a refit reads
them; each hour but the first is one in which a push may be found. After every fifth window an hour
is looked at every minute, in which a push begins within 30 minutes.

    python -m research.leaderboard.model_pushes --windows 500
"""

import argparse
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.special import expit

from calibrators import BinsTable, History
from calibrators.pooled.pushes import ScoreScale
from calibrators.pooled.window import Window
from calibrators.samples import Floats, Integers
from evaluation.simulation.parts import SPREAD, campaign_names, day_cycle
from research.leaderboard.platform import Push

_HOURS, _MINUTES = 48, 60
_DEVIATIONS: Floats = np.linspace(-3.0, 3.0, 25)
_HEIGHT = 0.4
"""Of a cycle, in standard deviations of the scores."""

CYCLES = ("none", "common", "own")
CAMPAIGNS, IMPRESSIONS = (10, 20, 100, 500), (5, 30, 200)
_COLUMNS = ("campaigns", "impressions each", "cycle")


@dataclass(frozen=True)
class Traffic:
    """Campaigns of so many impressions an hour on average, log-normal, in one window."""

    campaigns: int
    impressions: float
    cycle: str
    seed: int

    @cached_property
    def _drawn(self) -> tuple[Floats, Floats, Floats]:
        """Impressions an hour, centres of the scores, and phases of the cycles, (c,) each."""
        rng = np.random.default_rng((self.seed, 0))
        traffic = np.exp(rng.normal(-0.5, 1.0, self.campaigns))
        phases = rng.uniform(0, 2 * np.pi, self.campaigns if self.cycle == "own" else 1)
        return traffic, rng.normal(-4.0, 0.5, self.campaigns), np.resize(phases, self.campaigns)

    def counts(self, hour: int) -> Integers:
        """Impressions by minute, campaign and score, (60, c, s)."""
        traffic, _, phases = self._drawn
        height = _HEIGHT * (self.cycle != "none")
        tilt = height * np.sin(2 * np.pi * hour / 24 + phases)[:, None]
        shares = np.exp(tilt * _DEVIATIONS - _DEVIATIONS**2 / 2)
        shares /= shares.sum(axis=1, keepdims=True)
        expected = (self.impressions * day_cycle(hour) * traffic)[:, None] * shares
        rng = np.random.default_rng((self.seed, 1, hour))
        whole = rng.poisson(expected)
        if hour < _HOURS:
            return whole[None]
        return np.moveaxis(rng.multinomial(whole, np.full(_MINUTES, 1 / _MINUTES)), 2, 0)

    def table(self, hour: int, counts: Integers, pushed: bool = False) -> BinsTable:
        """The bins of impressions by campaign and score, (c, s), by the old model or a new one."""
        true = self._drawn[1][:, None] + SPREAD * _DEVIATIONS
        rng = np.random.default_rng((self.seed, 2, hour, int(counts.sum())))
        clicks = rng.binomial(counts, expit(true)).astype(np.float64)
        own = np.random.default_rng((self.seed, 3)).normal(0.0, 1.0, (self.campaigns, 1))
        scored = Push(_HOURS).scored(true + 4.0, own) - 4.0 if pushed else true
        rows, places = np.nonzero(counts)
        columns = (expit(scored), counts, clicks)
        held = (np.asarray(each, np.float64)[rows, places] for each in columns)
        return BinsTable.from_columns(campaign_names(self.campaigns), rows.astype(np.int64), *held)

    def scale(self) -> ScoreScale:
        """What a refit at the end of the window finds."""
        tables = {hour: self.table(hour, self.counts(hour).sum(axis=0)) for hour in range(_HOURS)}
        history = History(float(_HOURS), [tables])
        return ScoreScale.of(Window.of(history, _HOURS, None).blocks, history, _HOURS)

    def found(self, scale: ScoreScale, begins: int = _MINUTES) -> int | None:
        """After how many minutes of the next hour a push is seen, that begins in one of them."""
        counts = self.counts(_HOURS)
        known = np.cumsum(counts, axis=0)
        for minute in range(_MINUTES):
            parts = [self.table(_HOURS, known[min(minute, begins - 1)] if begins else 0 * known[0])]
            if minute >= begins:
                new = counts[begins : minute + 1].sum(axis=0)
                parts.append(self.table(_HOURS, new, pushed=True))
            if scale.changed(_HOURS, BinsTable.merge(parts)):
                return minute + 1
        return None


def row(kind: tuple[int, float, str], windows: int) -> dict[str, float]:
    """Hours that are over, running hours, and the alarms in each, where nothing happened; minutes
    to a push, of each fifth window."""
    alarms = looks = 0
    delays: list[float] = []
    for seed in range(windows):
        traffic = Traffic(*kind, seed)
        scale, begins = traffic.scale(), seed // 5 % 30
        alarms += len(scale.pushes)
        if seed % 5 == 0:
            looks += traffic.found(scale) is not None
            seen = traffic.found(scale, begins)
            delays.append(np.inf if seen is None else seen - begins)
    return {
        "hours": windows * (_HOURS - 1),
        "alarms": alarms,
        "running hours": len(delays),
        "alarms in them": looks,
        "minutes, median": float(np.median(delays)),
        "minutes, 9 of 10": float(np.quantile(delays, 0.9, method="higher")),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--campaigns", type=int, nargs="+", default=CAMPAIGNS)
    given = parser.parse_args()
    for number, kind in enumerate(product(given.campaigns, IMPRESSIONS, CYCLES)):
        cells = dict(zip(_COLUMNS, kind, strict=True)) | row(kind, given.windows)
        lines = [] if number else [cells.keys(), ["---:"] * len(cells)]
        for line in (*lines, cells.values()):
            sys.stdout.write(f"| {' | '.join(map(str, line))} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
