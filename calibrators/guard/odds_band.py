"""Bounds around a map, as a factor in odds."""

import numpy as np

from calibrators.samples import Floats

MARGIN = 1e-6
"""Added to every bound, so that a map that is exactly 0 or 1 somewhere can leave it again."""


def raised(probabilities: Floats, factor: float) -> Floats:
    """The upper bound: odds times the factor. Concave in the probability."""
    return np.minimum(factor * probabilities / (1.0 + (factor - 1.0) * probabilities) + MARGIN, 1.0)


def lowered(probabilities: Floats, factor: float) -> Floats:
    """The lower bound: odds divided by the factor. Convex in the probability."""
    return np.maximum(probabilities / (factor - (factor - 1.0) * probabilities) - MARGIN, 0.0)
