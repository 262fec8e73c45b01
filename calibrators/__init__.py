"""Calibration maps, the bins they are fitted from, and the calibrators that fit them."""

from calibrators.atlas import FEW, Atlas
from calibrators.bbq import BayesianBinning
from calibrators.beta import Beta
from calibrators.bins import Bins
from calibrators.bins_table import BinsTable
from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.histogram import Histogram
from calibrators.history import History, HourTables
from calibrators.identity import Identity
from calibrators.isotonic import Isotonic
from calibrators.method import Fitted, Method
from calibrators.methods import METHODS, make_method
from calibrators.per_campaign import PerCampaign
from calibrators.platt import Platt
from calibrators.refit import Refit, refit, refit_campaigns
from calibrators.registry import CALIBRATORS, make_calibrator
from calibrators.smoothed_isotonic import SmoothedIsotonic
from calibrators.sufficiency import Sufficiency
from calibrators.temperature import Temperature

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
    "Refit",
    "SmoothedIsotonic",
    "Sufficiency",
    "Temperature",
    "make_calibrator",
    "make_method",
    "refit",
    "refit_campaigns",
]
