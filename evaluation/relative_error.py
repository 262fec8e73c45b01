"""Prediction errors of many bins or slices."""

import numpy as np

from calibrators.samples import Floats


def relative_errors(predicted: Floats, actual: Floats) -> Floats:
    """predicted / actual - 1, both (k,); over 0 it is infinite, and nan for 0 over 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        errors: Floats = predicted / actual - 1.0
    return errors
