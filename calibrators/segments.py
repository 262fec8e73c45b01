"""Slopes of piecewise-linear maps that never overshoot the next knot."""

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats

_STEEPEST = float(np.finfo(np.float64).max)


def segment_slopes(knots: Floats, values: Floats) -> Floats:
    """Slope of the segment that starts at each knot, shape (k,); 0 for the last.

    A map is evaluated as value + slope * (score - knot). Rounding could carry that past the next
    knot's value and break monotonicity in the last bit, so each slope is the nearest float, towards
    0, that does not: what lies between two knots then never leaves their values. Maps may stand
    end to end: the seam, where the knots fall back to 0, is no segment and its slope is 0.
    """
    run = knots[1:] - knots[:-1]
    slopes = np.zeros(len(knots))
    inner = slopes[:-1]
    with np.errstate(over="ignore"):
        np.divide(values[1:] - values[:-1], run, out=inner)
    np.maximum(inner, -_STEEPEST, out=inner)
    np.minimum(inner, _STEEPEST, out=inner)
    inner[run < 0] = 0.0
    while (over := _overshoots(values, run, inner)).any():
        inner[over] = np.nextafter(inner[over], 0.0)
    return slopes


def _overshoots(values: Floats, run: Floats, slopes: Floats) -> NDArray[np.bool_]:
    reached, following = values[:-1] + slopes * run, values[1:]
    rising = (slopes > 0) & (reached > following)
    return rising | ((slopes < 0) & (reached < following))
