"""Folds of a cross-validation."""

import numpy as np

from calibrators.samples import Floats, Integers


def stratified_folds(outcomes: Floats, n: int, seed: int) -> Integers:
    """Which of n folds each sample is in, (n_samples,), drawn so that all have one rate.

    Folds differ by at most one in the positives they hold, and by at most one in the negatives.

    Parameters
    ----------
    outcomes : (n_samples,) each 0 or 1.
    n : folds, at least 1.
    seed : at least 0; the same seed draws the same folds.

    Examples
    --------
    >>> import numpy as np
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
