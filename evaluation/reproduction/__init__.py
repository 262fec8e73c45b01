"""The papers' tables and experiments, run again beside the printed numbers."""

from evaluation.reproduction.check import Check, Erratum, Verdict
from evaluation.reproduction.experiment import Experiment, Progress, Reproduction
from evaluation.reproduction.registry import EXPERIMENTS

__all__ = [
    "EXPERIMENTS",
    "Check",
    "Erratum",
    "Experiment",
    "Progress",
    "Reproduction",
    "Verdict",
]
