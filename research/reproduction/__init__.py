"""The papers' tables and experiments, run again beside the printed numbers."""

from research.reproduction.experiment import (
    Check,
    Erratum,
    Experiment,
    Progress,
    Reproduction,
    Verdict,
)
from research.reproduction.registry import EXPERIMENTS

__all__ = [
    "EXPERIMENTS",
    "Check",
    "Erratum",
    "Experiment",
    "Progress",
    "Reproduction",
    "Verdict",
]
