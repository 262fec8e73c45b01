"""All experiments, in the order in which `--all` runs them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from evaluation.reproduction import (
    auc_anomalies,
    calibration_tables,
    csauc,
    linear,
    logistic,
    networks,
    platform_pccem,
    platform_sir,
    printed_coherence,
    rate_curve,
    search,
)
from evaluation.reproduction.experiment import Experiment

_ALL: Final[tuple[Experiment, ...]] = (
    csauc.EXPERIMENT,
    auc_anomalies.EXPERIMENT,
    calibration_tables.EXPERIMENT,
    printed_coherence.EXPERIMENT,
    linear.EXPERIMENT,
    logistic.EXPERIMENT,
    platform_sir.EXPERIMENT,
    platform_pccem.EXPERIMENT,
    networks.EXPERIMENT,
    rate_curve.EXPERIMENT,
    search.EXPERIMENT,
)

EXPERIMENTS: Final[Mapping[str, Experiment]] = MappingProxyType({one.name: one for one in _ALL})
