"""Does behaviour after the click foretell the conversion, beyond what was known before it?"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, Integers, as_vector, check_equal_lengths
from evaluation.auc import auc_of
from evaluation.folds import stratified_folds
from evaluation.log_loss import log_loss_of
from evaluation.pcoc import pcoc_of
from evaluation.predictions import Predictions
from pccem import Features, PostClickModel

ALL, PRE_CLICK = "all", "pre_click"
_METRICS = {"auc": auc_of, "log_loss": log_loss_of, "pcoc": pcoc_of}
_INNER_FOLDS = 10
"""One in ten training samples says when to stop boosting."""


@dataclass(frozen=True, slots=True, eq=False)
class BehaviourStudy:
    """Two models on the same folds: all features, and those from before the click.

    Attributes
    ----------
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

    Parameters
    ----------
    features : n samples.
    conversions : (n,) each 0 or 1.
    behaviours : names of the features that are known only after the click.
    folds : at least 2; stratified, so that each has its share of the conversions.
    seed : draws the folds.
    num_threads : of LightGBM; 0 is one for each core.

    Raises
    ------
    ValueError
        When lengths differ, a behaviour is no feature, an outcome is neither 0 nor 1, or a class
        has fewer than two samples for each fold.

    References
    ----------
    Deng et al. (paper 004), section 3.3, says that behaviours are "very good conversion
    predictors" and shows rates; the comparison by cross-validation is ours.

    Examples
    --------
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
    wrong = (outcomes != 0.0) & (outcomes != 1.0)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(f"conversions[{first}] = {outcomes[first]}: must be 0 or 1")
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
    judged = [Predictions.check(probabilities[part], outcomes[part], None) for part in parts]
    return {name: np.array([metric(fold) for fold in judged]) for name, metric in _METRICS.items()}


def _mean_and_spread(scores: Mapping[str, Floats]) -> dict[str, float]:
    summary: dict[str, float] = {}
    for name, values in scores.items():
        summary[name] = float(values.mean())
        summary[f"{name}_spread"] = float(values.std(ddof=1))
    return summary
