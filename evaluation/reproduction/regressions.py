"""Linear and logistic regressions, many at once."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from scipy.special import expit

from calibrators.samples import Floats

_MAX_STEPS = 50
_SMALL_STEP = 1e-9
# Products this small are done by one thread; starting more costs more than they save.
_ROWS_AT_ONCE = 400


def with_intercept(features: Floats) -> Floats:
    """Features of shape (..., n, d) with a last column of ones."""
    columns = np.ones((*features.shape[:-1], features.shape[-1] + 1))
    columns[..., :-1] = features
    return columns


def least_squares(features: Floats, outcomes: Floats) -> Floats:
    """Coefficients (k, d + 1), intercept last, of k regressions on (k, n, d) and (k, n)."""
    columns = with_intercept(features)
    curvature, gradient = _no_moments(columns)
    for block, rows in _blocks(columns):
        transposed = np.swapaxes(block, -1, -2)
        curvature += transposed @ block
        gradient += transposed @ outcomes[:, rows, None]
    return _solved(curvature, gradient)


def logistic_regressions(features: Floats, outcomes: Floats) -> Floats:
    """Coefficients (k, d + 1), intercept last, of k unpenalised logistic regressions.

    Maximum likelihood by Newton's method; the log likelihood has one maximum, which does not
    depend on where the steps start. Raises ValueError when none is reached, as when a plane
    separates the outcomes.
    """
    columns = with_intercept(features)
    coefficients = np.zeros((columns.shape[0], columns.shape[-1]))
    # Where outcomes are separated, the likelihood flattens until its curvature is 0.
    with suppress(np.linalg.LinAlgError):
        for _ in range(_MAX_STEPS):
            step = _newton_step(columns, outcomes, coefficients)
            coefficients += step
            if np.abs(step).max(initial=0.0) < _SMALL_STEP:
                return coefficients
    raise ValueError("outcomes: no logistic regression has the highest likelihood")


def _newton_step(columns: Floats, outcomes: Floats, coefficients: Floats) -> Floats:
    curvature, gradient = _no_moments(columns)
    for block, rows in _blocks(columns):
        probabilities = expit((block @ coefficients[..., None])[..., 0])
        weights = probabilities * (1.0 - probabilities)
        transposed = np.swapaxes(block, -1, -2)
        curvature += transposed @ (block * weights[..., None])
        gradient += transposed @ (outcomes[:, rows] - probabilities)[..., None]
    return _solved(curvature, gradient)


def _no_moments(columns: Floats) -> tuple[Floats, Floats]:
    models, _, width = columns.shape
    return np.zeros((models, width, width)), np.zeros((models, width, 1))


def _blocks(columns: Floats) -> Iterator[tuple[Floats, slice]]:
    for first in range(0, columns.shape[1], _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        yield columns[:, rows], rows


def _solved(curvature: Floats, gradient: Floats) -> Floats:
    solution = np.linalg.solve(curvature, gradient).astype(np.float64, copy=False)
    return solution[..., 0]
