"""Slopes between the knots of maps, the same to the last bit as those that the service uses."""

from typing import Final

import numpy as np

from sirocco_client.question import Floats

_STEEPEST: Final = float(np.finfo(np.float64).max)


def slopes_of(knots: Floats, values: Floats) -> Floats:
    """Slope from each knot to the next, shape (k,); 0 for the last.

    Maps stand end to end: where the knots fall back to 0 a new map begins, and the slope is 0. A
    slope is the float nearest to rise over run that does not carry past the next knot's value, so
    that a monotone map stays monotone to the last bit.

    >>> slopes_of(np.array([0.0, 1.0, 0.0, 0.5, 1.0]), np.array([0.0, 0.5, 0.0, 0.5, 0.5])).tolist()
    [0.5, 0.0, 1.0, 0.0, 0.0]
    """
    rise, run = np.diff(values), np.diff(knots)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        steep = np.clip(rise / run, -_STEEPEST, _STEEPEST)
    slopes = np.where(run > 0, steep, 0.0)
    following = values[1:]
    while True:
        reached = values[:-1] + slopes * run
        over = ((slopes > 0) & (reached > following)) | ((slopes < 0) & (reached < following))
        if not over.any():
            return np.append(slopes, 0.0)
        slopes[over] = np.nextafter(slopes[over], 0.0)
