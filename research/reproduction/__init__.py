"""The papers' tables and experiments, run again beside the printed numbers."""

from research.reproduction.experiment import (
    Check,
    Conclusion,
    Erratum,
    Experiment,
    Progress,
    Reproduction,
)
from research.reproduction.registry import EXPERIMENTS

__all__ = [
    "EXPERIMENTS",
    "Check",
    "Conclusion",
    "Erratum",
    "Experiment",
    "Progress",
    "Reproduction",
]
