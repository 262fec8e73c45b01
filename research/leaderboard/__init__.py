"""The leaderboard of methods: which calibrator is nearest to the truth, by how much, on which
traffic.

A method learns from the hours before and is scored on the next (`prequential`). Traffic is
synthetic with a known truth (`platform`) or a log. `methods` has the service's own and its rivals,
`targets` what the default must reach; `python -m research.leaderboard` is
`sirocco backtest --compare`.
"""

from research.leaderboard.method import (
    LeaderboardMethod,
    MethodUnavailable,
    Predictor,
    ServiceMethod,
)
from research.leaderboard.methods import METHODS, PER_CAMPAIGN
from research.leaderboard.platform import REGIMES, Distortions, DriftingPlatform, Regime
from research.leaderboard.prequential import LogTraffic, Traffic, prequential
from research.leaderboard.results import MethodSums, Results, SeedResults

__all__ = [
    "METHODS",
    "PER_CAMPAIGN",
    "REGIMES",
    "Distortions",
    "DriftingPlatform",
    "LeaderboardMethod",
    "LogTraffic",
    "MethodSums",
    "MethodUnavailable",
    "Predictor",
    "Regime",
    "Results",
    "SeedResults",
    "ServiceMethod",
    "Traffic",
    "prequential",
]
