"""The contest: which calibrator wins, by how much, on which traffic."""

from research.leaderboard.method import Contender, ContenderAbsent, MethodContender, Served
from research.leaderboard.methods import CONTENDERS, PER_CAMPAIGN
from research.leaderboard.platform import REGIMES, Distortions, DriftingPlatform, Regime
from research.leaderboard.play import LogTraffic, Traffic, play
from research.leaderboard.results import TRUTH, Played, Round, Sums

__all__ = [
    "CONTENDERS",
    "PER_CAMPAIGN",
    "REGIMES",
    "TRUTH",
    "Contender",
    "ContenderAbsent",
    "Distortions",
    "DriftingPlatform",
    "LogTraffic",
    "MethodContender",
    "Played",
    "Regime",
    "Round",
    "Served",
    "Sums",
    "Traffic",
    "play",
]
