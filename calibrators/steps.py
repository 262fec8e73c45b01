"""Step functions as calibration maps, exact to the last float on both sides of a step."""

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.samples import Floats


def borders_between(scores: Floats) -> Floats:
    """The last float of each of m steps but the highest, shape (m - 1,), from ascending scores.

    A border lies halfway to the next score, and below it even where the two are neighbours.
    """
    lower, upper = scores[:-1], scores[1:]
    return np.minimum(lower + (upper - lower) / 2, np.nextafter(upper, 0.0))


def step_map(borders: Floats, values: Floats) -> CalibrationMap:
    """The map with values[i] for scores above borders[i - 1] and up to borders[i].

    Borders, shape (k - 1,), increase strictly in [0, 1); values, shape (k,), lie in [0, 1]. A step
    is two knots at neighbouring floats: no score falls between them. Raises ValueError without a
    value.

    >>> step_map(np.array([0.5]), np.array([0.1, 0.4]))([0.0, 0.5, np.nextafter(0.5, 1), 1.0])
    array([0.1, 0.1, 0.4, 0.4])
    """
    if not len(values):
        raise ValueError("values: there are none, a map needs one at least")
    rises = np.diff(values) != 0
    last, held = borders[rises], values[np.append(True, rises)]
    ends = np.stack((np.append(0.0, np.nextafter(last, 1.0)), np.append(last, 1.0)), axis=1)
    # A step that holds a single float has both its knots there.
    knots, first = np.unique(ends.ravel(), return_index=True)
    return CalibrationMap(knots, np.repeat(held, 2)[first])
