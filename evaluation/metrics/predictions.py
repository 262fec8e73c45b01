"""Checked predictions, bids and campaigns: what metrics accept, with errors that name the value;
their runs of equal probability, sorted by group; sums, and ratios with one rule for what is over 0.

A run is all samples of one group and one score, and its weight; with the positives of each run that
is all that Cal-N, GC-N and AUC need, whether samples, bins or cells of scores are sorted.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import (
    Floats,
    Integers,
    all_obey,
    are_plain,
    check_equal_lengths,
    check_not_negative,
    check_samples,
    is_nan,
)


def sum_between(values: Floats, starts: Integers, ends: Integers) -> Floats:
    """Sum of values[start:end] of each span, in the shape of the starts; 0 where start >= end.

    Non-empty spans ascend and do not overlap. Each is added up on its own, so that none is rounded
    to the size of another.
    """
    held = starts < ends
    sums = np.zeros(starts.shape)
    if held.any():
        edges = np.stack((starts[held], ends[held]), axis=1).ravel()
        sums[held] = np.add.reduceat(values[: edges[-1]], edges[:-1])[::2]
    return sums


def quotients(numerators: Floats, denominators: Floats) -> Floats:
    """Each over its denominator, which is at least 0; over 0 infinite, nan for 0 over 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found: Floats = numerators / denominators
    return found


def ratio(numerator: float, denominator: float) -> float:
    """`quotients` of two numbers."""
    return float(quotients(np.asarray(numerator), np.asarray(denominator)))


def ratio_errors(predicted: Floats, actual: Floats) -> Floats:
    """max(r, 1/r) - 1 with r = predicted / actual, in the arguments' shape: the error of a bin.

    Infinite where either side is 0, nan where both are.
    """
    ratios = quotients(predicted, actual)
    return np.maximum(ratios, quotients(np.asarray(1.0), ratios)) - 1.0


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Mean of the values, (n,), by weights at least 0, (n,); nan without weight."""
    total = weights.sum()
    if total == 0.0:
        return float("nan")
    # Shares, because value times weight can leave the range of floats where the mean does not.
    return float((values * (weights / total)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sums over the samples of each group, (groups,) each; sums of two parts of a group add up.

    The metrics are those of the functions of that name in `evaluation`, (groups,) each.

    weights : of the weights.
    positives : of weight times outcome.
    expected : of weight times probability.
    log_losses : of weight times log loss.
    squares : of weight times squared error.
    """

    weights: Floats
    positives: Floats
    expected: Floats
    log_losses: Floats
    squares: Floats

    @property
    def pcoc(self) -> Floats:
        """Expected over actual positives."""
        return quotients(self.expected, self.positives)

    @property
    def copc(self) -> Floats:
        """Actual over expected positives."""
        return quotients(self.positives, self.expected)

    @property
    def prediction_error(self) -> Floats:
        """PCOC less 1."""
        return self.pcoc - 1.0

    @property
    def cal_1(self) -> Floats:
        """max(PCOC, 1 / PCOC) - 1, the distance of PCOC from 1."""
        return ratio_errors(self.expected, self.positives)

    @property
    def log_loss(self) -> Floats:
        """Mean log loss."""
        return quotients(self.log_losses, self.weights)

    @property
    def mse(self) -> Floats:
        """Mean squared error."""
        return quotients(self.squares, self.weights)

    def rig(self, entropy: Floats) -> Floats:
        """Relative information gain over the entropy of each group's rate; nan where that is 0."""
        return np.where(entropy > 0.0, 1.0 - quotients(self.log_loss, entropy), np.nan)


class WeightAxis:
    """The weight before each run, all groups laid end to end, in ticks.

    A running sum of floats would round a small campaign to the size of all that came before it.
    Whole numbers do not, so every group counts in ticks of its own, 2 ** -exponents[g] samples:
    the finest with which all groups fit on one axis of 64 bits. 10,000 groups leave each at least
    2 ** 46 ticks. Whole-number weights are exact up to there, others rounded by half a tick.

    reached : (r + 1,) ticks before each run, and in all.
    exponents : (n_groups,) binary digits of a sample behind the point.
    """

    def __init__(self, weights: Floats, bounds: Integers) -> None:
        """The axis of runs of these weights, (r,), group g being runs bounds[g]:bounds[g + 1]."""
        totals = sum_between(weights, bounds[:-1], bounds[1:])
        room = min(52, 61 - len(totals).bit_length())
        self.exponents: Integers = room - np.frexp(totals)[1].astype(np.int64)
        ticks = np.ldexp(weights, np.repeat(self.exponents, np.diff(bounds)))
        reached = np.zeros(len(weights) + 1, np.int64)
        reached[1:] = np.rint(ticks, out=ticks)
        self.reached: Integers = np.cumsum(reached, out=reached)


Groups = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Runs:
    """Samples sorted by group and probability, those of one probability taken together.

    A calibration map has flat stretches, so many samples share a probability; no metric may
    depend on which of them a file lists first. Rows without weight are left out.

    order : (k,) the rows as sorted; a slice of all when they came so, which spares every copy.
    starts : (r,) where each run begins among the sorted rows; None when each row is a run.
    bounds : (n_groups + 1,) the runs of group g are bounds[g]:bounds[g + 1].
    row_counts : (n_groups,) rows in each group.
    probabilities, weights : (r,) of each run.
    """

    order: Integers | slice
    starts: Integers | None
    bounds: Integers
    row_counts: Integers
    probabilities: Floats
    weights: Floats

    @classmethod
    def of(cls, probabilities: Floats, weights: Floats, groups: Groups, n_groups: int) -> Self:
        """The runs of n samples; groups, shape (n,), say which of 0..n_groups-1 each is in."""
        order = _sorted_rows(probabilities, weights, groups, n_groups)
        p, w, g = probabilities[order], weights[order], groups[order]
        # A narrow type may hold every group and not their number; its own spares a copy of all.
        kind = np.promote_types(g.dtype, np.min_scalar_type(n_groups))
        bounds = np.searchsorted(g, np.arange(n_groups + 1, dtype=kind))
        row_counts = np.diff(bounds)
        opens = (p[1:] != p[:-1]) | (g[1:] != g[:-1])
        if opens.all():
            return cls(order, None, bounds, row_counts, p, w)
        starts = np.flatnonzero(np.concatenate((np.ones(1, bool), opens)))
        bounds = np.searchsorted(starts, bounds)
        return cls(order, starts, bounds, row_counts, p[starts], np.add.reduceat(w, starts))

    @classmethod
    def of_one_group(cls, probabilities: Floats, weights: Floats) -> Self:
        """The runs of n samples that all belong together."""
        return cls.of(probabilities, weights, np.zeros(len(probabilities), np.int8), 1)

    def sums(self, values: Floats) -> Floats:
        """Sum of the rows' values, shape (n,), over each run, shape (r,); may be a view of them."""
        in_order = values[self.order]
        return in_order if self.starts is None else np.add.reduceat(in_order, self.starts)

    def group_sums(self, run_values: Floats) -> Floats:
        """Sum of the runs' values, shape (r,), over each group, shape (n_groups,)."""
        return sum_between(run_values, self.bounds[:-1], self.bounds[1:])

    def holding(self, places: Integers) -> Integers:
        """The run that each place among the sorted rows belongs to, in the places' shape."""
        if self.starts is None:
            return places
        return np.searchsorted(self.starts, places, side="right") - 1

    @property
    def sample_counts(self) -> Floats:
        """Samples in each group, shape (n_groups,): rows, or their total weight where more."""
        return np.maximum(self.row_counts, self.group_sums(self.weights))

    @cached_property
    def expected(self) -> Floats:
        """Weight times probability of each run, shape (r,)."""
        return self.weights * self.probabilities

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Whether all weights of a group are whole numbers, shape (n_groups,)."""
        return np.equal(self.group_sums(self.weights - np.floor(self.weights)), 0.0)

    @cached_property
    def axis(self) -> WeightAxis:
        """Where each run begins, by weight."""
        return WeightAxis(self.weights, self.bounds)


def _sorted_rows(
    probabilities: Floats, weights: Floats, groups: Groups, n_groups: int
) -> Integers | slice:
    held = weights > 0.0
    if held.all():
        # Bins arrive sorted, and looking is a hundred times cheaper than sorting.
        if _ascends(probabilities, groups):
            return slice(None)
        return _sorting(probabilities, groups, n_groups)
    rows = np.flatnonzero(held)
    p, g = probabilities[rows], groups[rows]
    return rows if _ascends(p, g) else rows[_sorting(p, g, n_groups)]


def _ascends(p: Floats, g: Groups) -> bool:
    in_order: NDArray[np.bool_] = (g[1:] > g[:-1]) | ((g[1:] == g[:-1]) & (p[1:] >= p[:-1]))
    return bool(in_order.all())


def _sorting(p: Floats, g: Groups, n_groups: int) -> Integers:
    by_probability = np.argsort(p)
    if n_groups == 1:
        return by_probability
    # numpy sorts integers of 16 bits by radix, several times faster than longer ones.
    short = g[by_probability].astype(np.min_scalar_type(n_groups))
    return by_probability[np.argsort(short, kind="stable")]


def ranking(scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The scores from lowest to highest, (n,), and the weight before each and in all, (n + 1,)."""
    if (weights == 1.0).all():
        return np.sort(scores), np.arange(len(scores) + 1, dtype=np.float64)
    order = np.argsort(scores)
    reached = np.zeros(len(scores) + 1)
    np.cumsum(weights[order], out=reached[1:])
    return scores[order], reached


Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Probabilities, outcomes and weights of n samples, each of shape (n,) and checked.

    What several metrics need is worked out once, when the first of them asks for it.
    """

    probabilities: Floats
    outcomes: Floats
    weights: Floats

    @classmethod
    def check(cls, p: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        """The samples, (n,) each; ValueError as `check_samples`."""
        return cls(*check_samples(p, y, sample_weight, "probabilities"))

    def select(self, chosen: Mask) -> "Predictions":
        """The samples that are chosen by a mask, (n,)."""
        columns = (self.probabilities, self.outcomes, self.weights)
        return Predictions(*(column[chosen] for column in columns))

    @cached_property
    def positives(self) -> Floats:
        """Weight times outcome of every sample, shape (n,)."""
        return self.weights * self.outcomes

    @property
    def expected(self) -> Floats:
        """Weight times probability of every sample, shape (n,)."""
        return self.weights * self.probabilities

    @cached_property
    def runs(self) -> Runs:
        """All samples as one group, sorted by probability."""
        return Runs.of_one_group(self.probabilities, self.weights)

    @cached_property
    def run_positives(self) -> Floats:
        """Weight times outcome of every run, shape (r,)."""
        return self.runs.sums(self.positives)

    @cached_property
    def ordered(self) -> "Predictions":
        """The same samples by ascending probability where sorting them so is cheap, else these.

        For what needs `runs` and `run_positives` only, which are the same: plain clicks without
        weights sort without an index, several times faster than `runs` does it.
        """
        if "runs" in vars(self) or not are_plain(self.outcomes, self.weights):
            return self
        return Predictions(*_sorted_pairs(self.probabilities, self.outcomes), self.weights)


def _sorted_pairs(probabilities: Floats, outcomes: Floats) -> tuple[Floats, Floats]:
    """Both columns sorted by probability, then outcome; outcomes are 0 or 1."""
    # The bits of floats from 0 up sort as they do, and their sign bit is free for the outcome.
    keys = probabilities.view(np.uint64) << np.uint64(1)
    keys |= outcomes.astype(np.uint64)
    keys.sort()
    sorted_outcomes = (keys & np.uint64(1)).astype(np.float64)
    keys >>= np.uint64(1)
    return keys.view(np.float64), sorted_outcomes


class PricedPredictions:
    """Predictions of clicks that did or did not come, and the bid for each, shape (n,)."""

    def __init__(
        self, p: ArrayLike, y: ArrayLike, bids: ArrayLike, sample_weight: ArrayLike | None
    ) -> None:
        """The samples as float64.

        As for `Predictions.check`, but outcomes are 0 or 1; bids are finite and not negative.
        Raises ValueError that names the first offending value.
        """
        self.predictions = Predictions.check(p, y, sample_weight)
        y = self.predictions.outcomes
        whole = (y == 0.0) | (y == 1.0)
        all_obey("outcomes", y, whole, "every value must be 0 or 1, a click or none")
        self.bids = check_not_negative("bids", bids)
        check_equal_lengths(probabilities=self.predictions.probabilities, bids=self.bids)

    @property
    def scores(self) -> Floats:
        """Probability times bid, what an auction ranks by, shape (n,)."""
        return self.predictions.probabilities * self.bids

    @property
    def revenue(self) -> Floats:
        """Bid of each positive, 0 of each negative, shape (n,)."""
        return self.predictions.outcomes * self.bids

    @property
    def weights(self) -> Floats:
        """Of the samples, shape (n,)."""
        return self.predictions.weights


def check_mask(name: str, values: ArrayLike, probabilities: NDArray[Any]) -> Mask:
    """The values as booleans, (n,); ValueError on anything else, or another length."""
    mask = np.asarray(values)
    if mask.ndim != 1 or (mask.size and mask.dtype != np.bool_):
        raise ValueError(
            f"{name} must be booleans of one dimension, not {mask.ndim}-d {mask.dtype}"
        )
    columns: dict[str, NDArray[Any]] = {"probabilities": probabilities, name: mask}
    check_equal_lengths(**columns)
    return mask.astype(np.bool_, copy=False)


Campaigns = Sequence[Hashable] | NDArray[Any]


def encode_campaigns(campaigns: Campaigns) -> tuple[list[Hashable], Integers]:
    """The distinct campaigns, None of missing ones, and the place of every sample's, (n,)."""
    if isinstance(campaigns, np.ndarray) and campaigns.dtype.kind in "iu" and campaigns.ndim == 1:
        return _encode_numbers(campaigns)
    keys = campaigns.tolist() if isinstance(campaigns, np.ndarray) else campaigns
    code_of = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    # NaN is unequal to itself: each would be a campaign of its own.
    if any(map(is_nan, code_of)):
        return encode_campaigns([None if is_nan(key) else key for key in keys])
    return list(code_of), np.fromiter(map(code_of.__getitem__, keys), np.int64, len(keys))


def _encode_numbers(numbers: NDArray[Any]) -> tuple[list[Hashable], Integers]:
    # Indices into a list of names are small: counting them spares a sort of all samples.
    if len(numbers) and numbers.min() >= 0 and numbers.max() < 2 * len(numbers):
        present = np.bincount(numbers.astype(np.int64, copy=False)) > 0
        codes = numbers if present.all() else (np.cumsum(present) - 1)[numbers]
        return list(np.flatnonzero(present).tolist()), codes
    distinct, codes = np.unique(numbers, return_inverse=True)
    return list(distinct.tolist()), codes
