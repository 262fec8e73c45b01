"""The regimes of a contest: the kinds of traffic on which calibrators are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from evaluation.contest.distortions import Distortions
from evaluation.contest.drifting_platform import DriftingPlatform


@dataclass(frozen=True, slots=True)
class Regime:
    """A kind of traffic.

    Attributes
    ----------
    description : what it is, in one line, for the report.
    campaigns, impressions_per_hour, ctr, distortions : as in `DriftingPlatform`.
    first_judged, judged_hours : which hours are judged.
    """

    description: str
    campaigns: int
    impressions_per_hour: float
    ctr: float
    distortions: Distortions
    first_judged: int = 48
    judged_hours: int = 48

    def platform(self, seed: int) -> DriftingPlatform:
        """The platform of one seed."""
        return DriftingPlatform(
            self.campaigns, self.impressions_per_hour, self.ctr, seed, self.distortions
        )


_USUAL = Distortions(
    level=0.15,
    slope=0.1,
    wave=0.04,
    bend=0.15,
    drift=0.05,
    walk=0.012,
    day=0.05,
    jumps=0.2,
    jump=0.3,
    global_jump=0.15,
)
"""Scores are about a quarter off: some 300e-6 of excess log loss at a CTR of 1 %."""

REGIMES: Mapping[str, Regime] = MappingProxyType(
    {
        "mixed": Regime(
            "200 campaigns, CTR 1 %: a little of everything", 200, 25_000, 0.01, _USUAL
        ),
        "sparse": Regime(
            "200 campaigns, CTR 0.1 %: a few clicks a day for most",
            200,
            40_000,
            0.001,
            _USUAL,
        ),
        "dense": Regime(
            "10 campaigns, CTR 10 %: plenty of clicks, smooth drift only",
            10,
            8_000,
            0.1,
            Distortions(level=0.15, slope=0.1, wave=0.06, bend=0.15, drift=0.1, walk=0.01),
        ),
        "jumps": Regime(
            "100 campaigns, CTR 2 %: levels jump, each campaign's and once everyone's",
            100,
            15_000,
            0.02,
            Distortions(
                level=0.25, slope=0.1, wave=0.04, bend=0.2, jumps=1.2, jump=0.7, global_jump=0.5
            ),
        ),
        "steps": Regime(
            "100 campaigns, CTR 3 %: steps, kinks and plateaus, nothing smooth in log-odds",
            100,
            15_000,
            0.03,
            Distortions(level=0.25, rungs=True, drift=0.06, walk=0.02, day=0.06),
        ),
        "many": Regime(
            "10,000 campaigns, CTR 2 %: 8 hours judged, most campaigns nearly without clicks",
            10_000,
            60_000,
            0.02,
            _USUAL,
            judged_hours=8,
        ),
        "calibrated": Regime(
            "200 campaigns, CTR 1 %: every score is true already",
            200,
            25_000,
            0.01,
            Distortions(),
            judged_hours=24,
        ),
    }
)
"""Every regime by name."""
