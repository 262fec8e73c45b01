"""What naming the model's version is worth: a canary of a twentieth of the traffic for two days,
whose scores have another shape and level, with maps that know it and with maps that do not.

    python -m research.leaderboard.model_versions --seed 0 --step 4
"""

import argparse
import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from calibrators import BinsTable, History, make_method
from calibrators.samples import Floats
from evaluation.backtest.backtest import Refits, bins_by_hour
from evaluation.backtest.event_table import EventTable
from evaluation.simulation.ad_platform import PlatformHour
from research.leaderboard.platform import REGIMES, DriftingPlatform, Push

_SHARE, _BEGINS, _HOURS = 0.05, 60, 48
_MODEL = Push(_BEGINS)
_VERSIONS = ("", "v2")
_LEARNT_FROM = 48


class Canary:
    """Hours of the regime "push" without its pushes, a share of them scored by a second model."""

    def __init__(self, seed: int) -> None:
        regime = REGIMES["push"]
        rules = replace(regime.distortions, pushes=())
        sizes = regime.campaigns, regime.impressions_per_hour, regime.ctr
        self.platform = DriftingPlatform(*sizes, seed, rules)
        self._seed = seed
        rng = np.random.default_rng((seed, 5, 0))
        self._own = rng.normal(0.0, 1.0, regime.campaigns)

    def hour(self, hour: int) -> tuple[PlatformHour, NDArray[np.bool_]]:
        """The impressions, and which of them the second model has scored, (n,)."""
        drawn, rng = self.platform.hour(hour), np.random.default_rng((self._seed, 9, hour))
        events = drawn.events
        by_canary = (rng.random(len(events)) < _SHARE) & (hour >= _BEGINS)
        centre = float(logit(self.platform.ctr))
        own = self._own[events.rows]
        theirs = centre + _MODEL.scored(logit(events.scores) - centre, own)
        scores = np.where(by_canary, expit(theirs), events.scores)
        return PlatformHour(replace(events, scores=scores), drawn.truth), by_canary


def excess(probabilities: Floats, truth: Floats) -> Floats:
    """Expected log loss beyond that of the truth, of each impression, (n,)."""
    ratio, other = truth / probabilities, (1.0 - truth) / (1.0 - probabilities)
    return np.asarray(truth * np.log(ratio) + (1.0 - truth) * np.log(other))


def _named(events: EventTable, by_canary: NDArray[np.bool_]) -> EventTable:
    return events.of_versions(_VERSIONS, by_canary.astype(np.int64))


def run(seed: int, step: int) -> dict[tuple[str, bool], float]:
    """Mean excess x 10^6 with maps by version and without, of the canary's traffic and of the
    rest, over every so many hours of the two days."""
    canary = Canary(seed)
    refits = {name: Refits(make_method("pooled")) for name in ("named", "blind")}
    tables: dict[str, dict[int, BinsTable]] = {name: {} for name in refits}
    sums: dict[tuple[str, bool], list[tuple[float, int]]] = {}
    for hour in range(_BEGINS - _LEARNT_FROM, _BEGINS + _HOURS):
        drawn, by_canary = canary.hour(hour)
        known = {"named": _named(drawn.events, by_canary), "blind": drawn.events}
        moment = int(drawn.events.hours[0])
        if hour >= _BEGINS and (hour - _BEGINS) % step == step // 2:
            for name, events in known.items():
                atlas = refits[name].refit(History(moment, [dict(tables[name])]))
                rows = atlas.rows(events.campaigns)[events.rows]
                lost = excess(atlas.look_up(rows, events.scores), drawn.truth)
                for which in (True, False):
                    chosen = lost[by_canary == which]
                    sums.setdefault((name, which), []).append((float(chosen.sum()), len(chosen)))
        for name, events in known.items():
            tables[name] |= bins_by_hour(events)
    return {
        place: 1e6 * sum(lost for lost, _ in found) / sum(count for _, count in found)
        for place, found in sums.items()
    }


def main() -> None:
    """Print the figures of one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=int, default=4)
    given = parser.parse_args()
    found = run(given.seed, given.step)
    for which, label in ((True, "the canary's traffic"), (False, "the rest")):
        named, blind = found["named", which], found["blind", which]
        line = f"{label}: {named:.0f} by version, {blind:.0f} without: {named / blind:.2f}"
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
