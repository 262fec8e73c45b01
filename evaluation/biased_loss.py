"""Losses that a shift of all predictions makes least: log loss and quadratic loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit

from calibrators.samples import Floats, as_vector, check_equal_lengths
from evaluation.bias_shift import bias_shift_of
from evaluation.log_odds import log_odds
from evaluation.predictions import Predictions, check_weights
from evaluation.weighted_mean import weighted_mean

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
