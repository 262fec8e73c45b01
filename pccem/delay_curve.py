"""The distribution of delays when young clicks show their short delays only."""

import numpy as np
from numpy.typing import NDArray

from pccem.arrays import Floats


def delay_curve(delay: Floats, age: Floats) -> tuple[Floats, Floats]:
    """The most likely distribution of delays behind conversions seen so far.

    A conversion is seen only if its delay is at most its click's age: the delays are truncated on
    the right, and their plain shares would run far too early. With time reversed this is truncation
    on the left, whose nonparametric maximum likelihood is a product limit: with n_t the number of
    conversions of delay t and Y_t that of clicks with delay <= t <= age,

        F(t) = prod over s > t of (1 - n_s / Y_s).

    Conversions of every age count; where all clicks are old this is the plain share. Where all of
    Y_s converted at s, though shorter delays have been seen, the product would be 0 below for good;
    its factor is 1 / (Y_s + 1) there instead.

    Parameters
    ----------
    delay : (n,) seconds, at least 0.
    age : (n,) seconds, at least the delay.

    Returns
    -------
    times, shares : both (t,)
        The distinct delays, ascending, and F at each; the last share is 1: what comes later than
        any delay seen is not known, so clicks must be among them whose window is over.

    References
    ----------
    Lynden-Bell (1971), MNRAS 155, 95-118; Woodroofe (1985), Annals of Statistics 13, 163-177;
    Lagakos, Barraj and De Gruttola (1988), Biometrika 75, 515-523.

    Examples
    --------
    Two of four conversions came within 1 s; that of a click which is only 1 s old tells nothing
    about how many come later.

    >>> delay_curve(np.array([1.0, 1.0, 3.0, 4.0]), np.full(4, 9.0))[1]
    array([0.5 , 0.75, 1.  ])
    >>> delay_curve(np.array([1.0, 1.0, 3.0, 4.0, 1.0]), np.array([9.0, 9.0, 9.0, 9.0, 1.0]))[1]
    array([0.5 , 0.75, 1.  ])
    """
    times, counts = np.unique(delay, return_counts=True)
    begun = np.cumsum(counts)
    at_risk = begun - np.searchsorted(np.sort(age), times, side="left")
    factors = _factors(counts, at_risk)
    # F(t) leaves out the factor of t itself.
    shares = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
    return times, shares


def _factors(counts: NDArray[np.int64], at_risk: NDArray[np.int64]) -> Floats:
    emptied = counts == at_risk
    return np.where(emptied, 1.0 / (at_risk + 1.0), 1.0 - counts / at_risk)
