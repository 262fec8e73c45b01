"""All experiments, in the order in which `--all` runs them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from research.reproduction import (
    csauc,
    linear,
    logistic,
    networks,
    offline_metrics,
    pccem_platform,
    printed_coherence,
    rate_curve,
    search,
    sir_platform,
    sir_tables,
)
from research.reproduction.experiment import Experiment

_ALL: Final[tuple[Experiment, ...]] = (
    csauc.EXPERIMENT,
    offline_metrics.EXPERIMENT,
    sir_tables.EXPERIMENT,
    printed_coherence.EXPERIMENT,
    linear.EXPERIMENT,
    logistic.EXPERIMENT,
    sir_platform.EXPERIMENT,
    pccem_platform.EXPERIMENT,
    networks.EXPERIMENT,
    rate_curve.EXPERIMENT,
    search.EXPERIMENT,
)

EXPERIMENTS: Final[Mapping[str, Experiment]] = MappingProxyType({one.name: one for one in _ALL})
