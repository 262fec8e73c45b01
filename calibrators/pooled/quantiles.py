"""Weighted quantiles of values that come in blocks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrators.pooled.cell_hours import sums_by
from calibrators.samples import Floats

_WIDTH = 0.0875


def quantile(values: Sequence[Floats], weights: Sequence[Floats], share: float) -> float:
    """The first of all values, ascending, up to which lies this share of the weight.

    values, weights: one array of each for each block, (m,), finite, the weights >= 0; one value at
    least. Sums by narrow bins say in which of them it lies, and only the values of that one are
    sorted: no array is as long as all blocks together. Raises ValueError without a value.
    """
    if not any(map(len, values)):
        raise ValueError("values: there are none, so there is no quantile")
    low = min(float(block.min()) for block in values if len(block))
    bins = [((block - low) / _WIDTH).astype(np.int32) for block in values]
    reached = np.cumsum(_sums(bins, weights))
    goal = share * reached[-1]
    chosen = int(np.searchsorted(reached, goal))
    inside = [number == chosen for number in bins]
    found = np.concatenate([block[held] for block, held in zip(values, inside, strict=True)])
    weight = np.concatenate([block[held] for block, held in zip(weights, inside, strict=True)])
    order = np.argsort(found, kind="stable")
    before = reached[chosen - 1] if chosen else 0.0
    place = int(np.searchsorted(before + np.cumsum(weight[order]), goal))
    return float(found[order[min(place, len(order) - 1)]])


def _sums(bins: Sequence[NDArray[np.int32]], weights: Sequence[Floats]) -> Floats:
    size = 1 + max(int(number.max(initial=0)) for number in bins)
    sums = np.zeros(size)
    for number, weight in zip(bins, weights, strict=True):
        sums += sums_by(number, weight, size)
    return sums
