"""Every calibrator, and every method of refitting, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from calibrators.maps.groups import GroupOf
from calibrators.methods.bbq import BayesianBinning
from calibrators.methods.calibrator import Calibrator, Identity
from calibrators.methods.isotonic import Histogram, Isotonic
from calibrators.methods.logistic import Beta, Platt, Temperature
from calibrators.methods.refit import Method, PerCampaign, Sufficiency
from calibrators.methods.smoothed_isotonic import PRIOR_STRENGTH, SmoothedIsotonic
from calibrators.pooled import Pooled

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


def make_calibrator(
    name: str, bin_size: float, prior_strength: float = PRIOR_STRENGTH
) -> Calibrator:
    """The calibrator of this name; `bin_size` goes to those that have bins of their own,
    `prior_strength` to `sir`.

    Raises ValueError on an unknown name.

    >>> make_calibrator("sir", bin_size=200)
    SmoothedIsotonic(bin_size=200, anchor='mean', tails='proportional', prior_strength=5.0)
    """
    if name not in CALIBRATORS:
        raise ValueError(f"calibrator = {name!r}: must be one of {', '.join(CALIBRATORS)}")
    kind = CALIBRATORS[name]
    if issubclass(kind, SmoothedIsotonic):
        return kind(bin_size=bin_size, prior_strength=prior_strength)
    if issubclass(kind, Histogram):
        return kind(bin_size=bin_size)
    return kind()


POOLED = "pooled"

METHODS: tuple[str, ...] = (
    POOLED,
    *(name for name, calibrator in CALIBRATORS.items() if calibrator.monotone),
)
"""Names of the methods whose maps may serve: they never fall as scores rise."""


def make_method(
    name: str,
    *,
    hours: int = 24,
    history_hours: int = 48,
    bin_size: float = 1000,
    prior_strength: float = PRIOR_STRENGTH,
    sufficiency: Sufficiency | None = None,
    groups: GroupOf | None = None,
) -> Method:
    """The method of this name.

    `hours`, `bin_size`, `prior_strength` and `sufficiency` go to the calibrators that fit campaign
    by campaign, `history_hours` and `groups` to the pooled method.

    Raises ValueError on an unknown name.

    >>> make_method("sir", hours=12).hours, make_method("pooled", history_hours=72).hours
    (12, 72)
    """
    if name not in METHODS:
        raise ValueError(f"calibrator = {name!r}: must be one of {', '.join(METHODS)}")
    if name == POOLED:
        return Pooled(history_hours, groups)
    calibrator = make_calibrator(name, bin_size, prior_strength)
    return PerCampaign(calibrator, sufficiency or Sufficiency(), hours)
