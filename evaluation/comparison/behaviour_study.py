"""Does behaviour after the click predict the conversion, beyond what was known before it?

By cross-validation of the post-click model, and by the rate of conversions per quantile.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import (
    Floats,
    Integers,
    all_obey,
    as_vector,
    check_equal_lengths,
    check_unit_interval,
)
from evaluation.metrics.auc import auc_of
from evaluation.metrics.cal_n import check_bins
from evaluation.metrics.calibration import log_loss_of, pcoc_of
from evaluation.metrics.predictions import Predictions
from evaluation.metrics.reliability import wilson_interval
from pccem import Features, PostClickModel


def stratified_folds(outcomes: Floats, n: int, seed: int) -> Integers:
    """Which of n folds each sample is in, (n_samples,), drawn so that all have one rate.

    Folds differ by at most one in the positives they hold, and by at most one in the negatives.

    outcomes : (n_samples,) each 0 or 1.
    n : folds, at least 1.
    seed : of the draw.

    >>> outcomes = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    >>> folds = stratified_folds(outcomes, 2, seed=0)
    >>> np.bincount(folds), np.bincount(folds, outcomes)
    (array([3, 3]), array([1., 1.]))
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(outcomes))
    by_class = order[np.argsort(outcomes[order], kind="stable")]
    negatives = int(np.count_nonzero(outcomes == 0.0))
    folds = np.empty(len(outcomes), dtype=np.int64)
    folds[by_class[:negatives]] = np.arange(negatives) % n
    # From the last fold down, so that the first is not the largest of both.
    folds[by_class[negatives:]] = n - 1 - np.arange(len(outcomes) - negatives) % n
    return folds


ALL, PRE_CLICK = "all", "pre_click"
_METRICS = {"auc": auc_of, "log_loss": log_loss_of, "pcoc": pcoc_of}
_INNER_FOLDS = 10
"""One in ten training samples says when to stop boosting."""


@dataclass(frozen=True, slots=True, eq=False)
class BehaviourStudy:
    """Two models on the same folds: all features, and those from before the click.

    folds : (n,) the fold of each sample; it was predicted by a model that never saw that fold.
    probabilities : (n,) for "all", and for "pre_click" where there are features of that kind.
    scores : for each of them the auc, log_loss and pcoc of every fold, (n_folds,) each.
    """

    folds: Integers
    probabilities: Mapping[str, Floats]
    scores: Mapping[str, Mapping[str, Floats]]

    def summary(self) -> dict[str, dict[str, float]]:
        """For each model the mean of each metric over the folds, and its standard deviation.

        The row "gain" is "all" less "pre_click", fold by fold, which is free of how hard a fold is.
        """
        rows = dict(self.scores)
        if PRE_CLICK in rows:
            rows["gain"] = {m: rows[ALL][m] - rows[PRE_CLICK][m] for m in _METRICS}
        return {name: _mean_and_spread(scores) for name, scores in rows.items()}


def behaviour_study(
    features: Features,
    conversions: ArrayLike,
    behaviours: Collection[str],
    *,
    folds: int = 5,
    seed: int = 0,
    num_threads: int = 0,
) -> BehaviourStudy:
    """Cross-validate `PostClickModel` with and without the behaviours.

    features : n samples.
    conversions : (n,) each 0 or 1.
    behaviours : names of the features that are known only after the click.
    folds : at least 2; stratified, so that each has its share of the conversions.
    seed : draws the folds.
    num_threads : of LightGBM; 0 is one for each core.

    ValueError when lengths differ, a behaviour is no feature, an outcome is neither 0 nor 1, or a
    class has fewer than two samples for each fold.

    Source: Deng et al. (paper 004), section 3.3, says that behaviours are "very good conversion
    predictors" and shows rates; the comparison by cross-validation is ours.

    >>> visits = np.arange(600.0)
    >>> features = Features({"behaviour.pages": visits % 10, "feature.hour": visits % 7}, 600)
    >>> bought = features.columns["behaviour.pages"] > 6
    >>> rows = behaviour_study(features, bought, ["behaviour.pages"], num_threads=1).summary()
    >>> rows["all"]["auc"], rows["pre_click"]["auc"] < 0.6
    (1.0, True)
    """
    outcomes = as_vector("conversions", conversions)
    check_equal_lengths(features=np.empty(len(features)), conversions=outcomes)
    _check(features, outcomes, behaviours, folds)
    fold_of = stratified_folds(outcomes, folds, seed)
    chosen = {ALL: features, PRE_CLICK: features.without(behaviours)}
    probabilities = {
        name: _predicted(columns, outcomes, fold_of, seed, num_threads)
        for name, columns in chosen.items()
        if columns.columns
    }
    scores = {name: _scores(p, outcomes, fold_of) for name, p in probabilities.items()}
    return BehaviourStudy(fold_of, probabilities, scores)


def _check(features: Features, outcomes: Floats, behaviours: Collection[str], folds: int) -> None:
    unknown = sorted(set(behaviours) - features.columns.keys())
    if unknown or not behaviours:
        raise ValueError(f"behaviours = {unknown or behaviours}: must be names of features")
    if folds < 2:
        raise ValueError(f"folds = {folds}: must be at least 2")
    whole = (outcomes == 0.0) | (outcomes == 1.0)
    all_obey("conversions", outcomes, whole, "must be 0 or 1")
    least = 2 * folds
    for value, what in ((1.0, "conversions"), (0.0, "samples without one")):
        held = int(np.count_nonzero(outcomes == value))
        if held < least:
            raise ValueError(f"conversions: {held} {what}, {folds} folds need at least {least}")


def _predicted(
    features: Features, outcomes: Floats, fold_of: Integers, seed: int, num_threads: int
) -> Floats:
    """What each sample is given by the model of the other folds."""
    probabilities = np.empty(len(outcomes))
    for fold in np.unique(fold_of):
        tested = fold_of == fold
        learnt = outcomes[~tested]
        model = PostClickModel.fit(
            features.select(~tested),
            learnt,
            held_out=stratified_folds(learnt, _INNER_FOLDS, seed) == 0,
            seed=seed,
            num_threads=num_threads,
        )
        probabilities[tested] = model.score(features.select(tested), num_threads)
    return probabilities


def _scores(probabilities: Floats, outcomes: Floats, fold_of: Integers) -> dict[str, Floats]:
    parts = [fold_of == fold for fold in np.unique(fold_of)]
    scored = [Predictions.check(probabilities[part], outcomes[part], None) for part in parts]
    return {name: np.array([metric(fold) for fold in scored]) for name, metric in _METRICS.items()}


def _mean_and_spread(scores: Mapping[str, Floats]) -> dict[str, float]:
    summary: dict[str, float] = {}
    for name, values in scores.items():
        summary[name] = float(values.mean())
        summary[f"{name}_spread"] = float(values.std(ddof=1))
    return summary


@dataclass(frozen=True, slots=True, eq=False)
class QuantileRates:
    """Groups of nearly equal size, (k,) each, lowest value first.

    A value that many samples share is never divided, so groups differ in size where it sits, and
    there may be fewer of them than were asked for.

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

    values : (n_samples,) finite; nan where it is missing.
    outcomes : (n_samples,) in [0, 1].
    n : groups asked for, at least 1.
    confidence : coverage of the intervals, between 0 and 1.

    Source: Deng et al. (paper 004), section 3.3, figure 4: conversion rate by session time and by
    page views in the hour after the click.

    >>> rates = quantile_rates([0, 0, 0, 1, 2, 3], [0, 0, 1, 0, 1, 1], 3)
    >>> rates.lowest, rates.highest, rates.rates.round(3)
    (array([0., 1., 2.]), array([0., 1., 3.]), array([0.333, 0.   , 1.   ]))
    """
    check_bins(n)
    measured, happened = as_vector("values", values), check_unit_interval("outcomes", outcomes)
    check_equal_lengths(values=measured, outcomes=happened)
    all_obey("values", measured, ~np.isinf(measured), "must be finite, or nan where missing")
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
