"""Every calibrator by name."""

from collections.abc import Mapping
from types import MappingProxyType

from calibrators.methods.bbq import BayesianBinning
from calibrators.methods.calibrator import Calibrator, Identity
from calibrators.methods.isotonic import Histogram, Isotonic
from calibrators.methods.logistic import Beta, Platt, Temperature
from calibrators.methods.smoothed_isotonic import SmoothedIsotonic

CALIBRATORS: Mapping[str, type[Calibrator]] = MappingProxyType(
    {
        calibrator.name: calibrator
        for calibrator in (
            Identity,
            SmoothedIsotonic,
            Isotonic,
            Platt,
            Temperature,
            Beta,
            Histogram,
            BayesianBinning,
        )
    }
)


def make_calibrator(name: str, bin_size: float) -> Calibrator:
    """The calibrator of this name; `bin_size` goes to those that have bins of their own.

    Raises ValueError on an unknown name.

    >>> make_calibrator("sir", bin_size=200)
    SmoothedIsotonic(bin_size=200, anchor='mean', tails='proportional', prior_strength=5.0)
    """
    if name not in CALIBRATORS:
        raise ValueError(f"calibrator = {name!r}: must be one of {', '.join(CALIBRATORS)}")
    kind = CALIBRATORS[name]
    if issubclass(kind, SmoothedIsotonic | Histogram):
        return kind(bin_size=bin_size)
    return kind()
