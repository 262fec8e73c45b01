"""The bias of a model's log-odds: the one shift that makes its promises come true in sum.

Which samples a bias is fitted on, and which it is judged on.
Losses that a shift of all predictions makes least: log loss and quadratic loss.
Log-odds of probabilities: the scale on which a bias is a plain shift.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, logit, logsumexp

from calibrators.samples import Floats, as_vector, check_equal_lengths
from evaluation.metrics.loss import EPSILON
from evaluation.metrics.predictions import Predictions, check_weights
from evaluation.metrics.sums import weighted_mean

Mask = NDArray[np.bool_]


def bias_split(held: Mask, bias_rows: ArrayLike | None, share: float, seed: int) -> Mask:
    """Mask of the rows, (n,), that the bias is fitted on; all of them are among those held, (n,).

    Given `bias_rows` it is those. Otherwise `share` of the held rows, at least one and not all, is
    drawn by the seed. The draw looks at places only, so models judged on the same rows in the same
    order are split alike. Fewer than two rows cannot be split: none is drawn.
    """
    if bias_rows is not None:
        return held & _check_mask(bias_rows, held)
    if not 0.0 < share < 1.0:
        raise ValueError(f"bias_share = {share}: must be between 0 and 1")
    rows = np.flatnonzero(held)
    drawn = np.zeros(len(held), bool)
    if len(rows) > 1:
        size = min(max(round(share * len(rows)), 1), len(rows) - 1)
        drawn[np.random.default_rng(seed).permutation(rows)[:size]] = True
    return drawn


def _check_mask(bias_rows: ArrayLike, held: Mask) -> Mask:
    mask = np.asarray(bias_rows)
    if mask.size and mask.dtype != bool:
        raise ValueError(f"bias_rows must be True or False for every row, not {mask.dtype}")
    if mask.ndim != 1:
        raise ValueError(f"bias_rows must have one dimension, not {mask.ndim}")
    check_equal_lengths(probabilities=held, bias_rows=mask)
    return mask.astype(bool, copy=False)


def log_odds(p: Floats) -> Floats:
    """ln(p / (1 - p)) with p clipped to [1e-12, 1 - 1e-12], in p's shape: within 27.7 of 0."""
    odds: Floats = logit(np.clip(p, EPSILON, 1.0 - EPSILON))
    return odds


_CLOSE = 1e-12
"""The sum of the shifted probabilities is right to this share of itself."""


def bias_shift(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """The c for which q = sigmoid(logit(p) - c) has the least log loss of all shifts.

    There the sum of q is the sum of y, because the log loss is convex in c and that is where its
    derivative is 0. Positive c: the model promises too much, and c comes off all its log-odds.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1], clipped to [1e-12, 1 - 1e-12].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        c; nan without samples or without weight.

    Raises
    ------
    ValueError
        When the outcomes are all 0 or all 1, which no finite shift fits; when the columns differ
        in length or a value breaks its rule; it is named.

    Notes
    -----
    Newton's method on ln(sum q / sum y), with bisection where a step leaves the bracket or does
    not halve. With the rate r of the outcomes, the root lies between the lowest and the highest
    log-odds, each less logit(r): at one end no q is below r, at the other none above. When
    positives are the commoner class, negatives are summed instead, so that the rarer sum is the
    one met to twelve digits.

    References
    ----------
    Fan et al. (paper 000), section 3, equation (6), and paper 003, section 3, equation (6), where
    "c* = min" is argmin; c is subtracted in both.

    Examples
    --------
    Every sample promised 1/2, and a quarter of them came: the odds fall from 1 to 1/3.

    >>> round(bias_shift([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1]), 6), round(float(np.log(3)), 6)
    (1.098612, 1.098612)
    """
    return bias_shift_of(Predictions.check(p, y, sample_weight))


def bias_shift_of(predictions: Predictions) -> float:
    """`bias_shift` of checked predictions."""
    held = predictions.weights > 0.0
    if not held.any():
        return float("nan")
    outcomes, odds = predictions.outcomes[held], log_odds(predictions.probabilities[held])
    _check_both_classes(outcomes)
    # In logarithms, because with lopsided weights the sums leave the range of floats.
    log_weights = np.log(predictions.weights[held])
    log_weights -= log_weights.max()
    positives = float(logsumexp(log_weights, b=outcomes))
    negatives = float(logsumexp(log_weights, b=1.0 - outcomes))
    if positives <= negatives:
        return _root(odds, log_weights, positives, positives - negatives)
    return -_root(-odds, log_weights, negatives, negatives - positives)


def _check_both_classes(outcomes: Floats) -> None:
    if outcomes.max() == 0.0 or outcomes.min() == 1.0:
        raise ValueError(
            f"outcomes are all {outcomes[0]:.0f} ({len(outcomes):,} samples): the shift that would"
            " fit them is infinite; fit it on samples with both outcomes, such as more of them"
        )


def _root(odds: Floats, log_weights: Floats, target: float, rate: float) -> float:
    """The c with ln(sum of weights * expit(odds - c)) = target; `rate` is the target's log-odds.

    The target is at most half of all weight.
    """
    low, high = float(odds.min()) - rate, float(odds.max()) - rate
    weights = np.exp(log_weights)
    mean = float((weights * expit(odds)).sum() / weights.sum())
    c = min(max(float(logit(mean)) - rate, low), high)
    step = high - low
    while True:
        excess, slope = _excess(odds - c, log_weights, target)
        if abs(excess) <= _CLOSE:
            return c
        low, high = (c, high) if excess > 0.0 else (low, c)
        following = c + excess / slope
        if not (low < following < high and abs(following - c) <= step / 2.0):
            following = low + (high - low) / 2.0
        if not low < following < high:
            return c
        c, step = following, abs(following - c)


def _excess(odds: Floats, log_weights: Floats, target: float) -> tuple[float, float]:
    """ln(sum of weights * expit(odds)) - target, and how fast it falls as the odds do."""
    terms = log_weights + log_expit(odds)
    largest = float(terms.max())
    shares = np.exp(terms - largest)
    total = float(shares.sum())
    return largest + log(total) - target, float((shares * expit(-odds)).sum()) / total


Loss = Literal["log", "quadratic"]
_LARGEST = 1e150
"""The square of a residual of such values is still a float."""


@dataclass(frozen=True, slots=True)
class BiasedLoss:
    """A loss whose predictions may all be off by one shift.

    Attributes
    ----------
    check : probabilities, outcomes and weights, as they came, to checked predictions.
    fit : the shift with the least loss on some predictions; nan without any.
    losses : the loss of every sample, (n,), after a shift: one for all, or (n,).
    """

    check: Callable[[ArrayLike, ArrayLike, ArrayLike | None], Predictions]
    fit: Callable[[Predictions], float]
    losses: Callable[[Predictions, float | Floats], Floats]

    def mean(self, predictions: Predictions, shift: float | Floats = 0.0) -> float:
        """Weighted mean of the losses after a shift; nan without weight."""
        return weighted_mean(self.losses(predictions, shift), predictions.weights)


def biased_loss(name: Loss) -> BiasedLoss:
    """The loss of this name."""
    if name not in _LOSSES:
        raise ValueError(f"loss = {name!r}: must be one of {', '.join(_LOSSES)}")
    return _LOSSES[name]


def _log_losses(predictions: Predictions, shift: float | Floats) -> Floats:
    odds, y = log_odds(predictions.probabilities) - shift, predictions.outcomes
    losses: Floats = -y * log_expit(odds) - (1.0 - y) * log_expit(-odds)
    return losses


def _check_finite(p: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Predictions:
    predictions, outcomes = _moderate("predictions", p), _moderate("outcomes", y)
    weights = check_weights(sample_weight, len(predictions))
    check_equal_lengths(predictions=predictions, outcomes=outcomes, sample_weight=weights)
    return Predictions(predictions, outcomes, weights)


def _moderate(name: str, values: ArrayLike) -> Floats:
    array = as_vector(name, values)
    moderate = np.abs(array) <= _LARGEST
    if not moderate.all():
        first = int(np.argmin(moderate))
        rule = f"must be finite and within {_LARGEST:g} of 0"
        raise ValueError(f"{name}[{first}] = {array[first]}: every value {rule}")
    return array


def _mean_residual(predictions: Predictions) -> float:
    return weighted_mean(predictions.outcomes - predictions.probabilities, predictions.weights)


def _quadratic_losses(predictions: Predictions, shift: float | Floats) -> Floats:
    losses: Floats = (predictions.outcomes - (predictions.probabilities + shift)) ** 2
    return losses


_LOSSES: Mapping[str, BiasedLoss] = {
    "log": BiasedLoss(Predictions.check, bias_shift_of, _log_losses),
    "quadratic": BiasedLoss(_check_finite, _mean_residual, _quadratic_losses),
}
