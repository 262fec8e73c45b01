"""From the mode of a curve to what serves: the probability to expect, never falling."""

import numpy as np

from calibrators.pooled.campaign_block import CampaignBlock
from calibrators.pooled.monotone import monotone_rows
from calibrators.pooled.shape import Shape
from calibrators.samples import Floats
from calibrators.scipy_functions import expit

_MOST = 0.5
"""Log-odds by which the mean may differ from the mode: more is beyond the expansion."""


_LEAST = 1e-6
"""Weight of a knot without traffic where a falling curve is made monotone."""


def served_curves(shape: Shape, block: CampaignBlock) -> Floats:
    """The log odds ratios at the knots that serve the campaigns of a block, (c, k)."""
    mode = shape.curves(block)
    curves = mode + _bounded(_campaign_shifts(shape, block, mode))
    return _monotone(shape, curves, block.information(mode) + _LEAST)


def served_target_curve(shape: Shape) -> Floats:
    """The same, (1, k), for a campaign of which nothing is known."""
    mode = (shape.tree.target @ shape.coordinates.basis.T)[None]
    weights = sum(block.information(shape.curves(block)).sum(axis=0) for block in shape.blocks)
    curves = mode + _bounded(_prior_shifts(shape, mode))
    return _monotone(shape, curves, np.broadcast_to(weights + _LEAST, mode.shape))


def _monotone(shape: Shape, curves: Floats, weights: Floats) -> Floats:
    positions = shape.coordinates.knots.positions
    return monotone_rows(positions + curves, weights) - positions


def _campaign_shifts(shape: Shape, block: CampaignBlock, curves: Floats) -> Floats:
    """From the mode to the log odds whose probability is the posterior's mean, (c, k).

    To second order in the posterior's spread, E[p] lies logit-wise above p at the mode by the
    mean's distance from the mode, -P t / 2 with t the third derivative against P, plus
    (1 - 2 p) / 2 times the variance. With ample data both cancel; with none the mean over the
    prior remains.

    Source: the second-order Laplace approximation of Tierney and Kadane (JASA 81, 1986).
    """
    covariances = shape.eliminated(block).covariances
    pull = block.curvature_pull(curves, covariances)
    basis = shape.coordinates.basis
    shift = np.einsum("nij,nj->ni", covariances, pull) @ basis.T
    variances, _ = shape.coordinates.variances(covariances)
    shifts: Floats = shift + _spread(shape, curves, variances)
    return shifts


def _prior_shifts(shape: Shape, curves: Floats) -> Floats:
    squares = shape.coordinates.basis[:, 2:] ** 2
    priors = [shape.priors.campaign, shape.priors.group][: 1 + bool(len(shape.tree.groups))]
    steepness = shape.coordinates.steepness
    variances = sum(prior.level + squares @ prior.of_waves(steepness) for prior in priors)
    return _spread(shape, curves, np.asarray(variances)[None])


def _spread(shape: Shape, curves: Floats, variances: Floats) -> Floats:
    p = expit(shape.coordinates.knots.positions + curves)
    return (1 - 2 * p) / 2 * variances


def _bounded(shifts: Floats) -> Floats:
    return np.clip(shifts, -_MOST, _MOST)
