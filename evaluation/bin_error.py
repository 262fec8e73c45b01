"""The error of a bin, and the rules for bins in which nothing happened."""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np

from calibrators.samples import Floats
from evaluation.sums import sum_at

Empty = Literal["inf", "skip", "merge", "smooth"]


def bin_errors(predicted: Floats, actual: Floats, empty: Empty) -> Floats:
    """max(r, 1/r) - 1 with r = predicted / actual of every bin, shape (groups, bins).

    `empty` says what becomes of a bin without positives, whose r is infinite:

    * "inf": its error is infinite;
    * "skip": it is left out;
    * "merge": it joins the next lower bin that has positives, or the lowest that has some when
      there is none below; without any positives all bins are left out;
    * "smooth": every r is (predicted + 1) / (actual + 1).

    nan marks a bin left out, as is one where neither side has anything. A bin with positives
    whose probabilities are all 0 has r = 0 and, except under "smooth", an infinite error.
    """
    if empty not in _RULES:
        raise ValueError(f"empty = {empty!r}: must be one of {', '.join(get_args(Empty))}")
    predicted, actual = _RULES[empty](predicted, actual)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = predicted / actual
        return np.maximum(ratio, 1.0 / ratio) - 1.0


def _keep(predicted: Floats, actual: Floats) -> tuple[Floats, Floats]:
    return predicted, actual


def _skip(predicted: Floats, actual: Floats) -> tuple[Floats, Floats]:
    return np.where(actual > 0.0, predicted, np.nan), actual


def _merge(predicted: Floats, actual: Floats) -> tuple[Floats, Floats]:
    groups, n = actual.shape
    into = np.maximum(np.cumsum(actual > 0.0, axis=1) - 1, 0)
    flat = (into + n * np.arange(groups)[:, np.newaxis]).ravel()

    def pooled(values: Floats) -> Floats:
        return sum_at(flat, values.ravel(), groups * n).reshape(groups, n)

    # What pooling leaves without positives: emptied bins, and groups that never had any.
    return _skip(pooled(predicted), pooled(actual))


def _smooth(predicted: Floats, actual: Floats) -> tuple[Floats, Floats]:
    return predicted + 1.0, actual + 1.0


_RULES: Mapping[str, Callable[[Floats, Floats], tuple[Floats, Floats]]] = {
    "inf": _keep,
    "skip": _skip,
    "merge": _merge,
    "smooth": _smooth,
}
