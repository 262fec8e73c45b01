"""Fewer knots for a map that has to stay between bounds."""

import numpy as np

from calibrators.guard.evidence import log_odds_of
from calibrators.samples import Floats, Integers

_ROUNDING = 1e-12
_OUTSIDE = 1e6
"""Added to the error of a knot out of bounds, so that it comes before any that is not."""


def thinned(knots: Floats, values: Floats, lower: Floats, upper: Floats, most: int) -> Integers:
    """Which of the knots, (k,), to draw the map through: at most `most`, if that holds the bounds
    at all of them; more where it does not.

    Of Douglas and Peucker (1973), in rounds: from the two ends on, the knot of each piece joins
    where what is drawn so far errs most in log-odds, those out of bounds first.
    """
    taken = np.zeros(len(knots), bool)
    taken[[0, -1]] = True
    wanted = log_odds_of(values)
    while True:
        drawn = np.interp(knots, knots[taken], values[taken])
        outside = (drawn < lower - _ROUNDING) | (drawn > upper + _ROUNDING)
        errors = np.abs(log_odds_of(drawn) - wanted) + _OUTSIDE * outside
        joining = _worst(np.where(taken, 0.0, errors), np.cumsum(taken))
        room = max(most - int(taken.sum()), int(outside[joining].sum()))
        if not room or not joining.size:
            return np.flatnonzero(taken)
        taken[joining[:room]] = True


def _worst(errors: Floats, pieces: Integers) -> Integers:
    """The knot of the largest error in each piece that has one, the largest first."""
    order = np.lexsort((-errors, pieces))
    first = order[np.append(True, np.diff(pieces[order]) > 0)]
    first = first[errors[first] > 0]
    found: Integers = first[np.argsort(-errors[first], kind="stable")]
    return found
