"""From a fitted curve to the map that serves: the posterior mean probability, never falling."""

from collections.abc import Sequence

import numpy as np

from calibrators.maps.calibration_map import MapColumns
from calibrators.pooled.cells import FARTHEST, CampaignBlock
from calibrators.pooled.fit import Shape
from calibrators.pooled.hierarchy import Eliminated, Variances
from calibrators.pooled.spline import Knots
from calibrators.pooled.steps import Steps
from calibrators.samples import Floats, Integers
from calibrators.scipy_functions import expit

_MOST_KNOTS = 64
_BEYOND = np.array([0.35, 0.8, 1.4, 2.2, 3.2, 4.5, 6.0, 8.0, 10.5])
"""Log-odds beyond the outermost knots at which the constant odds ratio is sampled."""

_OUTERMOST = 30.0

_PART = 1024
"""Maps that are made at once: what it takes meanwhile is a few MB, however many there are."""


class ServedKnots:
    """Where the maps of a refit have their knots: at most 64, the same for every campaign.

    With steps, a map has knots before and behind each. A spline that falls where the steps rise is
    made monotone with them, by these weights of the spline's knots, (k,).
    """

    def __init__(self, knots: Knots, steps: Steps, weights: Floats) -> None:
        low, high = knots.positions[0], knots.positions[-1]
        beyond = _BEYOND if knots.count <= _MOST_KNOTS - 2 * len(_BEYOND) - 2 else _BEYOND[1::4]
        below, above = low - beyond[::-1], high + beyond
        tails = below[below > -FARTHEST], above[above < FARTHEST]
        more = steps.knots()
        more = more[(more > low) & (more < high)]
        room = _MOST_KNOTS - 2 - len(tails[0]) - len(tails[1]) - len(more)
        parts = max((room - 1) // (knots.count - 1), 1)
        inside = np.linspace(low, high, parts * (knots.count - 1) + 1)
        if knots.scores:
            places = np.linspace(0, knots.count - 1, len(inside))
            inside = np.interp(places, np.arange(knots.count), knots.positions)
        if len(more):
            inside = np.unique(np.concatenate((inside, more)))
        self._log_odds = np.concatenate(([-FARTHEST], tails[0], inside, tails[1], [FARTHEST]))
        self._before, self._after = knots.places(self._log_odds)
        self._scores = np.concatenate(([0.0], expit(self._log_odds[1:-1]), [1.0]))
        self._steps = steps.at(self._log_odds) if len(steps.cells) else None
        self._weights = np.interp(self._log_odds, knots.positions, weights) + _LEAST

    def maps(self, curves: Floats, shifts: Floats) -> MapColumns:
        """Maps of curves, (n, k), each shifted by as much, (n,)."""
        values = np.empty((len(curves), len(self._scores)))
        for first in range(0, len(curves), _PART):
            part = slice(first, first + _PART)
            values[part] = self._values(curves[part], shifts[part])
        lengths: Integers = np.full(len(curves), len(self._scores))
        return MapColumns(lengths, np.tile(self._scores, len(curves)), values.reshape(-1))

    def _values(self, curves: Floats, shifts: Floats) -> Floats:
        before, after = curves[:, self._before], curves[:, self._before + 1]
        table = before + self._after * (after - before) + self._log_odds + shifts[:, None]
        if self._steps is not None:
            table += self._steps
            table = monotone_rows(table, np.broadcast_to(self._weights, table.shape))
        return np.maximum.accumulate(expit(np.clip(table, -_OUTERMOST, _OUTERMOST)), axis=1)


def monotone_rows(table: Floats, weights: Floats) -> Floats:
    """Each row's weighted isotonic regression, (n, k); rows that never fall stay as they are.

    By the max-min formula, all rows at once: the value at k is the largest over i <= k of the
    smallest over j >= k of the weighted mean of i..j.

    Source: Barlow et al., Statistical Inference under Order Restrictions, 1972, theorem 1.4.

    Parameters: table (n, k), weights above 0, (n, k).
    """
    falling = (np.diff(table, axis=1) < 0).any(axis=1)
    if not falling.any():
        return table
    fitted = table.copy()
    fitted[falling] = _max_min(table[falling], weights[falling])
    return fitted


def _max_min(table: Floats, weights: Floats) -> Floats:
    size = table.shape[1]
    mass = np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0)))
    sums = np.pad(np.cumsum(weights * table, axis=1), ((0, 0), (1, 0)))
    fitted = np.full(table.shape, -np.inf)
    for first in range(size):
        total = mass[:, first + 1 :] - mass[:, first, None]
        means = (sums[:, first + 1 :] - sums[:, first, None]) / total
        behind = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        fitted[:, first:] = np.maximum(fitted[:, first:], behind)
    return np.maximum.accumulate(fitted, axis=1)


_MOST_SHIFT = 0.5
"""Log-odds by which the mean may differ from the mode: more is beyond the expansion."""


_LEAST = 1e-6
"""Weight of a knot without traffic where a falling curve is made monotone."""


def served_curves(shape: Shape, block: CampaignBlock) -> Floats:
    """The log odds ratios at the knots that serve the campaigns of a block, (c, k)."""
    mode, solved = shape.curves(block), shape.eliminated(block)
    curves = mode + _bounded(_campaign_shifts(shape, block, mode, solved.covariances))
    curves += _between_families(shape, block, solved)
    return _monotone(shape, curves, block.information(mode) + _LEAST)


def _between_families(shape: Shape, block: CampaignBlock, solved: Eliminated) -> Floats | float:
    """From the curve of a campaign as one of its likeliest family to the mean over all of them: as
    far as it follows its parent, it follows each as likely as it is of it, (c, k)."""
    if block.memberships is None:
        return 0.0
    parents = shape.tree.parents
    between = block.memberships @ parents[:-1] - parents[block.groups]
    moved = np.einsum("nij,nj->ni", solved.shrunk, between)
    return np.asarray(moved @ shape.coordinates.basis.T)


def served_shared_curves(shape: Shape) -> Floats:
    """The same, (1 + g, k), for campaigns of which nothing is known: first without a known group,
    then those of each group."""
    basis = shape.coordinates.basis
    target = (shape.tree.target @ basis.T)[None]
    groups = target + shape.tree.groups @ basis.T
    if shape.families is not None:
        target = shape.families.shares[None] @ groups
    campaign, group = shape.priors.campaign, shape.priors.group
    above = [campaign, group] if len(groups) else [campaign]
    shifts = (_prior_shifts(shape, target, above), _prior_shifts(shape, groups, [campaign]))
    mode = np.vstack((target, groups))
    curves = mode + _bounded(np.vstack(shifts))
    weights = information_at_knots(shape) + _LEAST
    return _monotone(shape, curves, np.broadcast_to(weights, mode.shape))


def information_at_knots(shape: Shape) -> Floats:
    """About the log odds near each knot, of all campaigns together, (k,)."""
    found = np.zeros(shape.coordinates.knots.count)
    for block in shape.blocks:
        found = found + block.information(shape.curves(block)).sum(axis=0)
    return found


def _monotone(shape: Shape, curves: Floats, weights: Floats) -> Floats:
    if len(shape.steps.cells):
        return curves  # Only with the steps: see `ServedKnots`.
    positions = shape.coordinates.knots.positions
    return monotone_rows(positions + curves, weights) - positions


def _campaign_shifts(
    shape: Shape, block: CampaignBlock, curves: Floats, covariances: Floats
) -> Floats:
    """From the mode to the log odds whose probability is the posterior's mean, (c, k).

    To second order in the posterior's spread, E[p] lies logit-wise above p at the mode by the
    mean's distance from the mode, -P t / 2 with t the third derivative against P, plus
    (1 - 2 p) / 2 times the variance. With ample data both cancel; with none the mean over the
    prior remains.

    Source: the second-order Laplace approximation of Tierney and Kadane (JASA 81, 1986).
    """
    pull = block.curvature_pull(curves, covariances)
    basis = shape.coordinates.basis
    shift = np.einsum("nij,nj->ni", covariances, pull) @ basis.T
    variances, _ = shape.coordinates.variances(covariances)
    shifts: Floats = shift + _spread(shape, curves, variances)
    return shifts


def _prior_shifts(shape: Shape, curves: Floats, priors: Sequence[Variances]) -> Floats:
    squares = shape.coordinates.basis[:, 2:] ** 2
    steepness = shape.coordinates.steepness
    variances = sum(prior.level + squares @ prior.of_waves(steepness) for prior in priors)
    return _spread(shape, curves, np.asarray(variances)[None])


def _spread(shape: Shape, curves: Floats, variances: Floats) -> Floats:
    p = expit(shape.coordinates.knots.positions + curves)
    return (1 - 2 * p) / 2 * variances


def _bounded(shifts: Floats) -> Floats:
    return np.clip(shifts, -_MOST_SHIFT, _MOST_SHIFT)
