"""Calibration: bins, the maps that are fitted from them, and the methods that fit. Numpy and scipy.

`bins/` are sums by cell of the score, `maps/` the functions from score to probability, `methods/`
fit each campaign on its own, `pooled/` all together, `guard/` says what is published.
`registry.py` has all methods by name; `samples.py` checks what comes in; by `peers.py` several
workers refit together.
"""

from calibrators.bins.bins import Bins
from calibrators.bins.table import BinsTable, History, HourTables
from calibrators.maps.atlas import FEW, Atlas
from calibrators.maps.calibration_map import CalibrationMap
from calibrators.methods.bbq import BayesianBinning
from calibrators.methods.calibrator import Calibrator, Identity
from calibrators.methods.isotonic import Histogram, Isotonic
from calibrators.methods.logistic import Beta, Platt, Temperature
from calibrators.methods.refit import (
    Fitted,
    Method,
    PerCampaign,
    Sufficiency,
    refit,
    refit_campaigns,
)
from calibrators.methods.smoothed_isotonic import SmoothedIsotonic
from calibrators.registry import CALIBRATORS, METHODS, make_calibrator, make_method

__all__ = [
    "CALIBRATORS",
    "FEW",
    "METHODS",
    "Atlas",
    "BayesianBinning",
    "Beta",
    "Bins",
    "BinsTable",
    "CalibrationMap",
    "Calibrator",
    "Fitted",
    "Histogram",
    "History",
    "HourTables",
    "Identity",
    "Isotonic",
    "Method",
    "PerCampaign",
    "Platt",
    "SmoothedIsotonic",
    "Sufficiency",
    "Temperature",
    "make_calibrator",
    "make_method",
    "refit",
    "refit_campaigns",
]
