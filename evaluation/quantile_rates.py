"""The rate of an outcome by quantile of a value: does the one go with the other?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import (
    Floats,
    Integers,
    as_vector,
    check_equal_lengths,
    check_unit_interval,
)
from evaluation.cal_n import check_bins
from evaluation.wilson import wilson_interval


@dataclass(frozen=True, slots=True, eq=False)
class QuantileRates:
    """Groups of nearly equal size, (k,) each, lowest value first.

    A value that many samples share is never divided, so groups differ in size where it sits, and
    there may be fewer of them than were asked for.

    Attributes
    ----------
    lowest, highest : the ends of each group's values, both inside.
    counts : samples in each group.
    positives : their outcomes' sum.
    rates : mean outcome of each group.
    lower, upper : Wilson's interval of each rate.
    missing : samples without a value; they are in no group.
    """

    lowest: Floats
    highest: Floats
    counts: Integers
    positives: Floats
    rates: Floats
    lower: Floats
    upper: Floats
    missing: int


def quantile_rates(
    values: ArrayLike, outcomes: ArrayLike, n: int = 5, *, confidence: float = 0.95
) -> QuantileRates:
    """Rates of the outcome in n groups of equal frequency; five are quintiles.

    Cut k falls where k/n of the samples lie below it, moved to the nearer end of a run of equal
    values, the upper one when both are as near.

    Parameters
    ----------
    values : (n_samples,) finite; nan where it is missing.
    outcomes : (n_samples,) in [0, 1].
    n : groups asked for, at least 1.
    confidence : coverage of the intervals, between 0 and 1.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Deng et al. (paper 004), section 3.3, figure 4: conversion rate by session time and by page
    views in the hour after the click.

    Examples
    --------
    >>> rates = quantile_rates([0, 0, 0, 1, 2, 3], [0, 0, 1, 0, 1, 1], 3)
    >>> rates.lowest, rates.highest, rates.rates.round(3)
    (array([0., 1., 2.]), array([0., 1., 3.]), array([0.333, 0.   , 1.   ]))
    """
    check_bins(n)
    measured, happened = as_vector("values", values), check_unit_interval("outcomes", outcomes)
    check_equal_lengths(values=measured, outcomes=happened)
    _check_finite(measured)
    held = ~np.isnan(measured)
    order = np.argsort(measured[held], kind="stable")
    ordered, positives = measured[held][order], happened[held][order]
    starts = _starts(ordered, n)
    counts = np.diff(np.append(starts, len(ordered)))
    sums = np.add.reduceat(positives, starts) if len(starts) else np.empty(0)
    rates = np.minimum(sums / counts, 1.0)
    interval = wilson_interval(rates, counts.astype(np.float64), confidence)
    return QuantileRates(
        ordered[starts],
        ordered[starts + counts - 1],
        counts,
        sums,
        rates,
        *interval,
        missing=int(len(measured) - len(ordered)),
    )


def _starts(ordered: Floats, n: int) -> Integers:
    """Where each group begins, (k,): at the start of a run of equal values."""
    size = len(ordered)
    if not size:
        return np.empty(0, dtype=np.int64)
    opens = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    ends = np.append(opens, size)
    # Twice n times the distance, so that all of it is whole numbers.
    cuts = np.arange(n) * size
    above = np.searchsorted(ends * n, cuts)
    below = np.maximum(above - 1, 0)
    nearer = np.where(cuts - ends[below] * n < ends[above] * n - cuts, below, above)
    nearest = np.unique(ends[nearer])
    return nearest[nearest < size]


def _check_finite(values: Floats) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        first = int(np.argmax(infinite))
        raise ValueError(f"values[{first}] = {values[first]}: must be finite, or nan where missing")
