"""Calibration in total and losses of every slice, from sums."""

from collections.abc import Mapping

import numpy as np

from calibrators.samples import Floats
from evaluation.click_entropy import click_entropy
from evaluation.compact.slice_sums import Sums
from evaluation.relative_error import relative_errors
from evaluation.wilson import wilson_interval


def slice_losses(sums: Sums, confidence: float = 0.95) -> Mapping[str, Floats]:
    """What each metric of this package that is a ratio of sums gives for each slice, (slices,).

    n, positives, pcoc, copc, prediction_error, ropr, log_loss, rig, mse, nmse and mae are those of
    the functions of that name (nan where undefined). `pcoc_lower` and `pcoc_upper` are where PCOC
    may lie by chance: the mean probability over the ends of Wilson's interval of the rate.
    `expected` and `bids` are the sums of the probabilities and of the bids.
    """
    weight, positives = sums.weight, sums.positives
    negatives = weight - positives
    mse = _over(sums.squares, weight)
    log_loss = _over(sums.log_losses, weight)
    both = (positives > 0.0) & (negatives > 0.0)
    entropy = np.where(both, click_entropy(positives, negatives), np.nan)
    chance = np.where(both, _over(positives, weight) * _over(negatives, weight), np.nan)
    lower, upper = pcoc_interval(weight, positives, sums.expected, confidence)
    return {
        "n": weight,
        "positives": positives,
        "expected": sums.expected,
        "pcoc": np.where(positives > 0.0, _over(sums.expected, positives), np.nan),
        "pcoc_lower": lower,
        "pcoc_upper": upper,
        "copc": _over(positives, sums.expected),
        "prediction_error": relative_errors(sums.expected, positives),
        "ropr": _over(sums.revenue, sums.expected_revenue),
        "log_loss": log_loss,
        "rig": 1.0 - log_loss / entropy,
        "mse": mse,
        "nmse": mse / chance,
        "mae": _over(sums.distances, weight),
        "bids": sums.bids,
    }


def pcoc_interval(
    weight: Floats, positives: Floats, expected: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Where the PCOC of each slice may lie by chance, from its sums, (slices,).

    Both ends are nan without samples. The upper end is infinite without positives: they may be as
    rare as one likes.
    """
    held = weight > 0.0
    weight = np.where(held, weight, 1.0)
    low, high = wilson_interval(np.minimum(positives / weight, 1.0), weight, confidence)
    # Of the few last digits that the interval of a rate of 0 leaves.
    low = np.where(positives > 0.0, low, 0.0)
    mean = expected / weight
    ends = _over(mean, high), _over(mean, low)
    return np.where(held, ends[0], np.nan), np.where(held, ends[1], np.nan)


def _over(numerator: Floats, denominator: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient: Floats = numerator / denominator
    return quotient
