"""Sums by place and by span, and ratios of sums with one rule for what is over 0."""

from dataclasses import dataclass

import numpy as np

from calibrators.samples import Floats, Integers


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
    """Each numerator over its denominator, all at least 0; over 0 infinite, nan for 0 over 0."""
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
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(entropy > 0.0, 1.0 - self.log_loss / entropy, np.nan)
