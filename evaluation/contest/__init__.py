"""The contest: which calibrator wins, by how much, on which traffic."""

from evaluation.contest.contender import Contender, ContenderAbsent, MethodContender, Served
from evaluation.contest.contenders import CONTENDERS, PER_CAMPAIGN
from evaluation.contest.distortions import Distortions
from evaluation.contest.drifting_platform import DriftingPlatform
from evaluation.contest.play import play
from evaluation.contest.played import Played
from evaluation.contest.regimes import REGIMES, Regime
from evaluation.contest.rounds import TRUTH, Round, Sums
from evaluation.contest.traffic import LogTraffic, Traffic

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
