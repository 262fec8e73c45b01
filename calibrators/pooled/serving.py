"""From a fitted curve to the map that serves, the posterior mean probability, never falling; and
how sure it is: variances of curves and levels, and what was missing in them.

The posterior knows what its model knows. What truth does besides is learnt from the window's own
misses. Of curves (steps that no smooth curve follows) the least variance is added with which nine
of ten of them would have been inside their 90 % interval. Of levels, whose misses are few positives
each, it is the posterior mean of a variance that counts show (`learnt_variance`). A level that may
have jumped has no normal posterior but a mixture over when it did, whose 90 % interval counts
(`mixture_variance`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from calibrators.maps.calibration_map import MapColumns
from calibrators.peers import ALONE, Peers
from calibrators.pooled.cells import CELLS, FARTHEST, CampaignBlock, coarse_cells, middles
from calibrators.pooled.change_points import negative_binomial
from calibrators.pooled.fit import Shape, Steps
from calibrators.pooled.hierarchy import Eliminated, Variances
from calibrators.pooled.spline import Knots
from calibrators.pooled.state_space import SPANS
from calibrators.samples import IN_MEMORY, Floats, Integers, Scratch, expit, sum_at

_MOST_KNOTS = 64
_BEYOND = np.array([0.35, 0.8, 1.4, 2.2, 3.2, 4.5, 6.0, 8.0, 10.5])
"""Log-odds beyond the outermost knots at which the constant odds ratio is sampled."""

_OUTERMOST = 30.0

_PART = 1024
"""Maps that are made at once: what it takes meanwhile is a few MB, however many there are."""


class ServedKnots:
    """Where the maps of a refit have their knots: at most 64, the same for every campaign.

    With steps, a map has knots before and behind each. A spline that falls where the steps rise is
    made monotone with them, by what is known around each knot of the maps: of the `grid`, see
    `Cells`. Many impressions of one score weigh there, not in all of a piece of the spline.
    """

    def __init__(self, knots: Knots, steps: Steps, grid: Floats) -> None:
        low, high = knots.positions[0], knots.positions[-1]
        beyond = _BEYOND if knots.count <= _MOST_KNOTS - 2 * len(_BEYOND) - 2 else _BEYOND[1::4]
        below, above = low - beyond[::-1], high + beyond
        # Where scores of 0 and 1 are.
        first, last = np.clip(knots.stretch(np.array([-FARTHEST, FARTHEST])), -FARTHEST, FARTHEST)
        tails = below[below > first], above[above < last]
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
        # The lattice may go on behind the ends, where a score counts as one at them.
        inside = inside[(inside > first) & (inside < last)]
        log_odds = np.concatenate(([first], tails[0], inside, tails[1], [last]))
        scores = np.concatenate(([0.0], expit(knots.stretch.back(log_odds[1:-1])), [1.0]))
        # A step and a knot of the spline may lie so close that their scores are one.
        rising = np.append(True, np.diff(scores) > 0.0)
        self._log_odds, self._scores = log_odds[rising], scores[rising]
        self._before, self._after = knots.places(self._log_odds)
        self._steps = steps.at(self._log_odds) if len(steps.cells) else None
        samples, positives = grid[:2]
        tiny = np.finfo(float).tiny
        information = positives * np.maximum(samples - positives, 0.0) / (samples + tiny)
        self._weights = self._around(information).sum(axis=1) + _LEAST
        self._in_cells = self._around(samples) / (sum_at(coarse_cells(), samples, CELLS) + tiny)

    def maps(self, curves: Floats, shifts: Floats, scratch: Scratch = IN_MEMORY) -> MapColumns:
        """Maps of curves, (n, k), each shifted by as much, (n,)."""
        knots, values = (scratch.empty((len(curves), len(self._scores))) for _ in range(2))
        knots[:] = self._scores
        for first in range(0, len(curves), _PART):
            part = slice(first, first + _PART)
            values[part] = self._values(curves[part], shifts[part])
        lengths: Integers = np.full(len(curves), len(self._scores))
        return MapColumns(lengths, knots.reshape(-1), values.reshape(-1))

    def probabilities(self, block: CampaignBlock, curves: Floats) -> Floats:
        """Of the cells of a block, (m,), as maps of these curves, (c, k), have them: made monotone
        with the steps. A level that is measured on what falls is not that of what is served."""
        if self._steps is None:
            return block.probabilities(curves)
        table = self._table(curves)
        rises = (self._monotone(table) - table) @ self._in_cells
        return block.probabilities(curves, rises[block.hours.rows, block.coarse])

    def _around(self, amounts: Floats) -> Floats:
        """Amounts of the cells of the grid, shared between the knots around each, (k, CELLS)."""
        cells, scores = coarse_cells(), middles()
        after = np.clip(np.searchsorted(self._log_odds, scores), 1, len(self._log_odds) - 1)
        low, high = self._log_odds[after - 1], self._log_odds[after]
        behind = amounts * (scores - low) / (high - low)
        found = np.zeros((len(self._log_odds), CELLS))
        np.add.at(found, (after - 1, cells), amounts - behind)
        np.add.at(found, (after, cells), behind)
        return found

    def _values(self, curves: Floats, shifts: Floats) -> Floats:
        table = self._monotone(self._table(curves) + shifts[:, None])
        return np.maximum.accumulate(expit(np.clip(table, -_OUTERMOST, _OUTERMOST)), axis=1)

    def _table(self, curves: Floats) -> Floats:
        before, after = curves[:, self._before], curves[:, self._before + 1]
        table: Floats = before + self._after * (after - before) + self._log_odds
        return table if self._steps is None else table + self._steps

    def _monotone(self, table: Floats) -> Floats:
        if self._steps is None:
            return table
        return monotone_rows(table, np.broadcast_to(self._weights, table.shape))


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
    # Of less than that, running sums keep no digits, and their differences may be 0 over 0.
    weights = np.maximum(weights, 1e-12 * weights.max(axis=1, keepdims=True))
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


def served_curves(shape: Shape, block: CampaignBlock, solved: Eliminated) -> Floats:
    """The log odds ratios at the knots that serve the campaigns of a block, (c, k), as it is solved
    at the mode."""
    mode = shape.curves(block)
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
    known = (block.information(shape.curves(block)).sum(axis=0) for block in shape.blocks)
    weights = shape.peers.sum(known) + _LEAST
    return _monotone(shape, curves, np.broadcast_to(weights, mode.shape))


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
    return np.asarray(shift + _spread(shape, curves, variances))


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


_INSIDE, _SIGMAS = 0.9, 1.645
_EXTRA: Floats = np.concatenate(([0.0], np.geomspace(0.02, 0.8, 24))) ** 2
"""Variances of log-odds to choose from."""

_MATERIAL = 0.1
"""Log-odds: a miss speaks as far as chance does not hide one of this size."""

_LEARNT: Floats = np.concatenate(([0.0], np.geomspace(0.01, 0.6, 18)))
"""Standard deviations of log ratios to choose from."""

_USUAL = 0.05
"""The likeliest of them beforehand: their density goes with sd exp(-sd / usual)."""

_HALVINGS = 18
"""Of the range of an end: to some thousandths of a standard deviation."""


def missing_variance(missed: Iterable[Floats], peers: Peers = ALONE) -> float:
    """The least variance that, added to those of curves and to the noise, has nine of ten misses in
    log-odds inside 90 % intervals, as far as chance cannot tell: less one standard error. A miss
    weighs less the more noise it has. missed: of each block, as `CurveUncertainty` has it."""
    total, squares, *inside = peers.sum(missed)
    goal = _INSIDE * total - np.sqrt(_INSIDE * (1 - _INSIDE) * squares)
    enough = np.array([*inside[:-1], np.inf]) >= goal
    return float(_EXTRA[np.argmax(enough)])


def _inside(block: Floats) -> Floats:
    """Of a block the sums of the misses' weights, of the squares of these, and of those inside the
    intervals with each of `_EXTRA`, (2 + e,)."""
    misses, noise, variances = block
    weights = (_MATERIAL**2 / (_MATERIAL**2 + noise)) ** 2
    squares = misses**2 / _SIGMAS**2 - noise - variances
    inside = [weights[squares <= extra].sum() for extra in _EXTRA.tolist()]
    return np.array([weights.sum(), (weights**2).sum(), *inside])


@dataclass(frozen=True, slots=True, eq=False)
class CurveUncertainty:
    """How sure the curves of a fitted shape are at n scores.

    directions : of curves at these scores, in the coordinates, (n, k); see `Coordinates`.
    """

    shape: Shape
    directions: Floats

    def campaigns(self, block: CampaignBlock, solved: Eliminated) -> Floats:
        """Variances of the served curves of a block, (c, n), their own levels left out: those the
        state-space filter knows."""
        levels = np.zeros((len(block), 1, self.directions.shape[1]))
        levels[:, 0, 0], levels[:, 0, 1] = 1.0, block.offsets
        own = _along(solved.covariances, self.directions - levels)
        above = self.shape.tree.covariances_of(block.groups)
        return own + _along(above, self.directions @ solved.shrunk)

    def shared(self) -> Floats:
        """The same, (1 + g, n), of a campaign of which nothing is known: its own deviation, and its
        group's where that is unknown too, are draws from their priors."""
        known = _along(np.roll(self.shape.tree.covariances, 1, axis=0), self.directions)
        known += self._of_prior(self.shape.priors.campaign)
        if len(known) > 1:
            known[0] += self._of_prior(self.shape.priors.group)
        return known

    def missed(self, block: CampaignBlock, solved: Eliminated) -> Floats:
        """Sums of what the curves of a block miss of the cells that they were fitted to, for
        `missing_variance`."""
        variances, _ = self.shape.coordinates.variances(solved.covariances)
        return _inside(block.misses(self.shape.curves(block), variances))

    def _of_prior(self, prior: Variances) -> Floats:
        waves = prior.of_waves(self.shape.coordinates.steepness)
        found: Floats = prior.level + self.directions[:, 2:] ** 2 @ waves
        return found + prior.slope * self._own_width()

    def _own_width(self) -> float:
        """Mean square distance of scores from the centre of their campaign's traffic."""
        sums = self.shape.peers.sum(np.array(block.scatter()) for block in self.shape.blocks)
        return float(sums[0] / max(sums[1], np.finfo(float).tiny))


def learnt_variance(observed: Floats, expected: Floats, known: Floats, followed: Floats) -> float:
    """The variance of log ratios beyond the known that n counts of positives show, (n,) each: its
    posterior mean, given that an expected count is a Poisson rate times a gamma variable.

    A level that wanders is followed the better, the more positives tell where it is: of a variance
    v, v / (1 + v followed) is left, with as many positives `followed` in the hours in which it
    stays about the same.
    """
    held = expected > 0
    y, e, before, seen = (column[held] for column in (observed, expected, known, followed))
    logs = np.array([_log_chance(y, e, before + v / (1 + v * seen)).sum() for v in _LEARNT**2])
    logs += np.log(np.maximum(_LEARNT, _LEARNT[1] / 2)) - _LEARNT / _USUAL
    weights = np.gradient(_LEARNT) * np.exp(logs - logs.max())
    return float(weights @ _LEARNT**2 / weights.sum())


def _log_chance(observed: Floats, expected: Floats, variances: Floats) -> Floats:
    """Of counts whose rates are expected times a gamma variable of mean 1 and these variances."""
    size = 1 / np.maximum(variances, _LEARNT[1] ** 2 / 100)
    return negative_binomial(observed, expected, size, size)


def mixture_variance(
    observed: Floats,
    expected: Floats,
    variances: Floats,
    rate: float,
    jump: float,
    before: Floats | None = None,
) -> Floats:
    """The variance whose normal 90 % interval around the served levels is that of a mixture, (c,).

    The level of each of c campaigns is where it is served, with these variances, (c,), or has
    jumped, once in 1 / `rate` hours and with the variance `jump`: in the hour that is served, or
    one of `SPANS` of hours before, as far as the positives since say so: observed, and expected
    where levels are served, (c, h), the newest hour last. A level that is served has followed these
    positives already and hides that it jumped: what was `before` them, where that is known, see
    `LevelForecast`, is what they must speak against.

    Source: the mixtures of Harrison and Stevens, JRSS B 38, 1976, of one jump at most.
    """
    means, spreads = [np.zeros(len(variances))] * 2, [variances, variances + jump]
    logs = [np.zeros(len(variances)), np.full(len(variances), np.log(rate))]
    size = 1 / (variances + jump)
    for place, (shorter, span) in enumerate(pairwise((0, *SPANS))):
        y, e = (table[:, -span:].sum(axis=1) for table in (observed, expected))
        told = (e, variances) if before is None else before[:, :, place].T
        gained = _log_chance(y, told[0], told[1] + jump) - _log_chance(y, *told)
        logs.append(np.log(rate * (span - shorter)) + gained)
        means.append(np.log((size + y) / (size + e)))
        spreads.append(1 / (size + y))
    shares = np.exp(logs - np.max(logs, axis=0))
    ends = _ends(np.array(means), np.sqrt(spreads), shares / shares.sum(axis=0))
    return np.asarray((ends / _SIGMAS) ** 2)


def _ends(means: Floats, deviations: Floats, weights: Floats) -> Floats:
    """How far around 0 mixtures of k normal variables, (k, c), hold nine tenths, (c,)."""
    from scipy.special import ndtr  # as `calibrators.samples.expit` does

    low = np.zeros(means.shape[1])
    high = (np.abs(means) + 2 * _SIGMAS * deviations).max(axis=0, initial=0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = ndtr((middle - means) / deviations) - ndtr((-middle - means) / deviations)
        enough = (weights * inside).sum(axis=0) > _INSIDE
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray((low + high) / 2)


def _along(covariances: Floats, directions: Floats) -> Floats:
    """Variances, (c, n), of (c or 1, k, k) along (c or 1, n, k)."""
    return np.asarray(((directions @ covariances) * directions).sum(axis=2))


_SURE = 1 - 1e-9
"""Rates that are higher cannot rise."""


def in_log_odds(ratios: Floats, variances: Floats, rates: Floats) -> tuple[Floats, Floats]:
    """From log ratios of expected positives and their variances, (n,) each, to what their
    probabilities differ by in log-odds, and the variances of that.

    rates : (n,), in [0, 1), the mean probability p of these positives: a shift d in log-odds
        changes their number by (1 - p) d, to the first order. It takes p no farther than half-way
        to 1.
    """
    rates = np.clip(rates, np.finfo(float).tiny, _SURE)
    moved = np.minimum(np.exp(ratios) * rates, (1 + rates) / 2)
    shifts = np.log(moved / rates) - np.log1p(-moved) + np.log1p(-rates)
    return shifts, variances / (1 - moved) ** 2


def in_log_ratios(levels: Floats, variances: Floats, rates: Floats) -> tuple[Floats, Floats]:
    """The reverse, of levels that are in the probabilities already: the log ratios by which they
    changed the positives, (n,), and the variances before that of ratios."""
    without = (1 - rates) * np.exp(np.clip(levels, -_OUTERMOST, _OUTERMOST))
    whole = rates + without
    return np.log(whole), variances * (without / whole) ** 2
