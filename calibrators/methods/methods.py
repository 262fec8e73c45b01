"""Every method by name."""

from collections.abc import Callable

from calibrators.methods.calibrator import Sufficiency
from calibrators.methods.refit import Method, PerCampaign
from calibrators.methods.registry import CALIBRATORS, make_calibrator
from calibrators.pooled import Pooled

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
    sufficiency: Sufficiency | None = None,
    groups: Callable[[str], str | None] | None = None,
) -> Method:
    """The method of this name.

    `hours`, `bin_size` and `sufficiency` go to the calibrators that fit campaign by campaign,
    `history_hours` and `groups` to the pooled method.

    Raises ValueError on an unknown name.

    >>> make_method("sir", hours=12).hours, make_method("pooled", history_hours=72).hours
    (12, 72)
    """
    if name not in METHODS:
        raise ValueError(f"calibrator = {name!r}: must be one of {', '.join(METHODS)}")
    if name == POOLED:
        return Pooled(history_hours, groups)
    calibrator = make_calibrator(name, bin_size)
    return PerCampaign(calibrator, sufficiency or Sufficiency(), hours)
