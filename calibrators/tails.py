"""From a calibrator's anchors to a whole calibration map: what happens beyond the outermost."""

from math import nextafter
from typing import Literal

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.samples import Floats

Tails = Literal["proportional", "clip", "unit", "extend"]
"""Beyond the outermost anchors the map goes on in proportion to the score ("proportional", keeps
order and the local ratio), stays flat ("clip"), runs to (0, 0) and (1, 1) ("unit"), or extends the
outermost segments ("extend"); always cut to [0, 1]."""


def knots_with_tails(anchors: Floats, values: Floats, tails: Tails) -> CalibrationMap:
    """The map through anchors that increase strictly in [0, 1], shape (k,), k >= 1.

    Source: the gap "x outside [m_0, m_last]" of Algorithm 1, Deng et al. With one anchor at
    score 0 there is no proportion, and the map is constant; "extend" needs two anchors and is
    proportional with one. Raises ValueError without an anchor.
    """
    if not len(anchors):
        raise ValueError("anchors: there are none, a map needs one at least")
    at_0, at_1 = _reached(anchors.tolist(), values.tolist(), tails)
    low_knots, low_values = _line_to_edge(float(anchors[0]), float(values[0]), 0.0, at_0)
    high_knots, high_values = _line_to_edge(float(anchors[-1]), float(values[-1]), 1.0, at_1)
    return CalibrationMap(
        np.concatenate((low_knots[::-1], anchors, high_knots)),
        np.concatenate((low_values[::-1], values, high_values)),
    )


def _reached(anchors: list[float], values: list[float], tails: Tails) -> tuple[float, float]:
    """Values of the two tails at scores 0 and 1, not yet cut to [0, 1]."""
    if tails == "clip":
        return values[0], values[-1]
    if tails == "unit":
        return 0.0, 1.0
    if tails == "extend" and len(anchors) > 1:
        first = (values[1] - values[0]) / (anchors[1] - anchors[0])
        last = (values[-1] - values[-2]) / (anchors[-1] - anchors[-2])
        return values[0] - first * anchors[0], values[-1] + last * (1 - anchors[-1])
    if anchors[-1] == 0:
        return values[-1], values[-1]
    return 0.0, values[-1] / anchors[-1]


def _line_to_edge(
    anchor: float, value: float, edge: float, reached: float
) -> tuple[list[float], list[float]]:
    """Knots from an anchor (not included) outward to score 0 or 1, cut to values in [0, 1]."""
    if anchor == edge:
        return [], []
    if 0.0 <= reached <= 1.0:
        return [edge], [reached]
    limit = float(reached > 1.0)
    crossing = anchor + (limit - value) / (reached - value) * (edge - anchor)
    if crossing == anchor:
        crossing = nextafter(anchor, edge)
    return ([crossing, edge], [limit, limit]) if crossing != edge else ([edge], [limit])
