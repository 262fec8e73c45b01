"""Areas under the ROC curve of every slice."""

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.runs import Runs


def roc_areas(runs: Runs, positives: Floats, *highs: float) -> list[Floats]:
    """Mean share of a slice's positives found while up to `high` of its negatives are let through.

    With high = 1 it is `auc` of each slice, else its `partial_auc` from 0 to `high`. A positive
    that f of the negatives rank above is found for high - f of that range; one that ties with
    some is found on the way from the first to the last of them.

    Parameters
    ----------
    runs : the samples of all slices.
    positives : (r,) weighted outcomes of each run.
    highs : in (0, 1].

    Returns
    -------
    For each high, (slices,) in [0, 1]; nan unless there are both positives and negatives.
    """
    clicked = np.flatnonzero(positives)
    slices = np.searchsorted(runs.bounds, clicked, side="right") - 1
    won = positives[clicked]
    first, last, others = _rivals(runs, positives, clicked, slices)
    clicks = np.bincount(slices, won, len(others))
    areas = []
    for high in highs:
        found = np.bincount(slices, won * _found(first, last, high), len(others))
        with np.errstate(invalid="ignore"):
            share = found / clicks / high
        areas.append(np.where((clicks > 0.0) & (others > 0.0), share, np.nan))
    return areas


def _rivals(
    runs: Runs, positives: Floats, clicked: Integers, slices: Integers
) -> tuple[Floats, Floats, Floats]:
    """Share of the negatives above each run with positives, and above or at it; and the negatives
    of each slice."""
    negatives = runs.weights - positives
    totals = runs.group_sums(negatives)
    own = negatives[clicked]
    # Over all slices, and then less what the slices before have: weights are whole numbers.
    reached = np.cumsum(negatives, out=negatives)
    before = np.concatenate((np.zeros(1), reached))[runs.bounds[:-1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        first = 1.0 - (reached[clicked] - before[slices]) / totals[slices]
        first = np.clip(first, 0.0, 1.0)
        return first, first + own / totals[slices], totals


def _found(first: Floats, last: Floats, high: float) -> Floats:
    """For how much of the range from 0 to `high` a positive is found."""
    with np.errstate(divide="ignore", invalid="ignore"):
        on_the_way = np.maximum(high - first, 0.0) ** 2 / (2.0 * (last - first))
    found = np.where(last <= high, high - (first + last) / 2.0, on_the_way)
    return np.where(first >= high, 0.0, found)
