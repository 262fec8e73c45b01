"""The settings of an auction that an ad platform can turn without a new model."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What turns bids and scores into a ranking, and how good an ad must be to be shown.

    Parameters
    ----------
    alpha : click investment power, at least 0: the rank score is bid * score ** alpha. 0 ranks by
        the bid alone, 1 by expected revenue, more prefers ads that are clicked.
    reserve : least rank score of an ad that is shown at all, at least 0.
    mainline_reserve : least rank score in the mainline, at least 0. Below `reserve` it is idle.

    Raises
    ------
    ValueError
        When a parameter is negative or not finite; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 2.1, equation 1. The paper names no thresholds, but
    without one for the mainline an auction cannot vary how many ads it shows there.

    Examples
    --------
    >>> OperatingPoint(alpha=0.8, mainline_reserve=0.05)
    OperatingPoint(alpha=0.8, reserve=0.0, mainline_reserve=0.05)
    """

    alpha: float = 1.0
    reserve: float = 0.0
    mainline_reserve: float = 0.0

    def __post_init__(self) -> None:
        for name in ("alpha", "reserve", "mainline_reserve"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} = {value}: must be finite and at least 0")
