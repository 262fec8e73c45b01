"""How sure the served log-odds are: variances of curves and levels, and what was missing in them.

The posterior knows what its model knows. What truth does besides (a curve with steps, a market
that turns) is learnt from misses: the least variance is added with which nine of ten of the
window's own misses would have been inside their 90 % interval.
"""

import numpy as np

from calibrators.pooled.campaign_hours import CampaignHours
from calibrators.pooled.cells import CampaignBlock
from calibrators.pooled.fit import Shape
from calibrators.pooled.priors import Variances
from calibrators.samples import Floats

_INSIDE, _SIGMAS = 0.9, 1.645
_EXTRA: Floats = np.concatenate(([0.0], np.geomspace(0.02, 0.8, 24))) ** 2
"""Variances of log-odds to choose from."""

_MATERIAL = 0.1
"""Log-odds: a miss speaks as far as chance does not hide one of this size."""

_NEWEST = (1, 2, 4, 8, 16)
"""Hours of the spans that are compared with what is served."""

_CONTRADICTION = 2.0
"""Standard deviations beyond which the newest hours contradict what is served."""


def missing_variance(misses: Floats, noise: Floats, variances: Floats) -> float:
    """The least variance that, added to these and to the noise, has nine of ten misses in log-odds
    inside 90 % intervals, (n,) each, as far as chance cannot tell: less one standard error. A miss
    weighs less the more noise it has."""
    weights = (_MATERIAL**2 / (_MATERIAL**2 + noise)) ** 2
    error = np.sqrt(_INSIDE * (1 - _INSIDE) * (weights**2).sum())
    goal = _INSIDE * weights.sum() - error
    squares = misses**2 / _SIGMAS**2 - noise - variances
    for extra in _EXTRA[:-1].tolist():
        if weights[squares <= extra].sum() >= goal:
            return float(extra)
    return float(_EXTRA[-1])


def curve_variances(shape: Shape, block: CampaignBlock, log_odds: Floats) -> Floats:
    """Of the served curves of a block's campaigns at these log-odds of the score, (c, n), their
    own levels left out: those the state-space filter knows."""
    directions = _directions(shape, log_odds)
    solved = shape.eliminated(block)
    levels = np.zeros((len(block), 1, directions.shape[1]))
    levels[:, 0, 0], levels[:, 0, 1] = 1.0, block.offsets
    own = _along(solved.covariances, directions - levels)
    above = shape.tree.covariances_of(block.groups)
    return own + _along(above, directions @ solved.shrunk)


def shared_curve_variances(shape: Shape, log_odds: Floats) -> Floats:
    """The same, (1 + g, n), of a campaign of which nothing is known: its own deviation, and its
    group's where that is unknown too, are draws from their priors."""
    directions = _directions(shape, log_odds)
    known = _along(np.roll(shape.tree.covariances, 1, axis=0), directions)
    known += _of_prior(shape, shape.priors.campaign, directions)
    if len(known) > 1:
        known[0] += _of_prior(shape, shape.priors.group, directions)
    return known


def missing_in_curves(shape: Shape) -> float:
    """What curves miss of the cells that they were fitted to, as a variance of log-odds."""
    found = [_cell_misses(shape, block) for block in shape.blocks]
    return missing_variance(*np.hstack([np.empty((3, 0)), *found]))


def contradiction(block: CampaignHours, shifts: Floats, variances: Floats) -> Floats:
    """What the newest hours say against levels with these shifts and variances, (c,) each, as
    further variance: the square of the largest log ratio of a span that is further from 0 than two
    standard deviations."""
    counted = block.weights > 0
    expected = block.expected * counted * np.exp(shifts)[:, None]
    observed, found = block.observed * counted, np.zeros(len(shifts))
    for span in _NEWEST:
        e, y = (table[:, -span:].sum(axis=1) + 0.5 for table in (expected, observed))
        squares = np.log(y / e) ** 2
        sure = squares > _CONTRADICTION**2 * (1 / e + variances)
        found = np.maximum(found, np.where(sure, squares, 0.0))
    return found


def _directions(shape: Shape, log_odds: Floats) -> Floats:
    """Of curves at these log-odds in the coordinates, (n, k)."""
    before, after = shape.coordinates.knots.places(log_odds)
    basis, share = shape.coordinates.basis, after[:, None]
    directions: Floats = basis[before] * (1 - share) + basis[before + 1] * share
    return directions


def _along(covariances: Floats, directions: Floats) -> Floats:
    """Variances, (c, n), of (c or 1, k, k) along (c or 1, n, k)."""
    found: Floats = ((directions @ covariances) * directions).sum(axis=2)
    return found


def _of_prior(shape: Shape, prior: Variances, directions: Floats) -> Floats:
    waves = prior.of_waves(shape.coordinates.steepness)
    found: Floats = prior.level + directions[:, 2:] ** 2 @ waves
    return found + prior.slope * _own_width(shape)


def _own_width(shape: Shape) -> float:
    """Mean square distance of scores from the centre of their campaign's traffic, in log-odds."""
    sums = np.sum([block.scatter() for block in shape.blocks], axis=0)
    return float(sums[0] / max(sums[1], 1e-300))


def _cell_misses(shape: Shape, block: CampaignBlock) -> Floats:
    """Of each cell of a block the miss in log-odds, its noise and its variance, (3, m)."""
    curves = shape.curves(block)
    variances, _ = shape.coordinates.variances(shape.eliminated(block).covariances)
    return block.misses(curves, variances)
