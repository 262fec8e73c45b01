"""The papers' tables and experiments, run again beside the printed numbers."""

from research.reproduction.experiment import (
    Check,
    Conclusion,
    Erratum,
    Experiment,
    Progress,
    Reproduction,
)

__all__ = ["Check", "Conclusion", "Erratum", "Experiment", "Progress", "Reproduction"]
