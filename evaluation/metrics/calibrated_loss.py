"""Calibrated losses: the loss that is left once a model's overall bias is taken out.

The bias is one shift of all predictions: of the log-odds for log loss, `bias_shift`, and of the
predictions themselves for the quadratic loss. It is fitted on some rows and used on others, drawn
or named, or on the next period. Arguments and errors not described are those of
`evaluation.metrics`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit

from calibrators.samples import (
    Floats,
    Integers,
    all_obey,
    as_vector,
    check_equal_lengths,
    check_weights,
    sum_at,
)
from evaluation.metrics.calibration import bias_shift_of, both_outcomes, log_odds
from evaluation.metrics.predictions import Mask, Predictions, check_mask, weighted_mean

Loss = Literal["log", "quadratic"]


Periods = Sequence[Hashable] | NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedLoss:
    """A calibrated loss beside the plain one.

    value : loss of the shifted predictions on the rows that the shift was not fitted on.
    plain : loss of the predictions as they are, on the same rows as `value`: compare these two.
    plain_on_all : the plain loss on all rows, those of the bias too, as the papers report it.
    shift : c*, fitted on the bias rows: taken from all log-odds (log loss), or added to all
        predictions (quadratic loss).
    bias_rows : (n,) mask of the rows that the shift was fitted on.
    """

    value: float
    plain: float
    plain_on_all: float
    shift: float
    bias_rows: Mask


def calibrated_losses(
    p: ArrayLike,
    y: ArrayLike,
    loss: Loss = "log",
    *,
    bias_share: float = 0.1,
    seed: int = 0,
    bias_rows: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> CalibratedLoss:
    """Fit the bias on one part of the rows (V), and measure with and without it on the rest (R).

    For "log" the shift is `bias_shift`: q = sigmoid(logit(p) - c*), after which the sum of q is
    the sum of y on V. For "quadratic" it is the mean residual: q = p + c*, after which the mean of
    y - q is 0 on V. The loss is that of q on R. A small V costs something: about 1 / (2 |V|) on
    the log loss, and the residuals' variance / |V| on the quadratic. "quadratic" is made for
    regression: nothing is clipped.

    A model that is merely too high or too low everywhere is not punished, so training runs of one
    model differ less and two models are told apart with fewer runs. For the same reason it cannot
    see a model that improves calibration itself: print `pcoc` beside it.

    p, y : (n,) for "log" as in all metrics; for "quadratic" any numbers within 1e150 of 0.
    loss : "log" or "quadratic".
    bias_share : share of the rows in V, between 0 and 1; at least one row, and not all.
    seed : draws V, by the rows' places: models compared on the same rows in the same order get
        the same V. Another order of the rows is another draw; `bias_rows` is free of that.
    bias_rows : (n,) True for the rows of V, instead of the draw (the earlier days, say).
    sample_weight : (n,) finite, at least 0. A row of weight w goes to V or to R as a whole; rows
        of weight 0 are in neither.

    Its `value` is nan when V or R has no rows of positive weight. ValueError for "log" when the
    outcomes of V are all 0 or all 1: draw more rows, or name rows that hold both.

    Source: Fan et al. (paper 000), section 3, Algorithm 1; paper 003, section 3. Both set the
    calibrated loss on R against the plain one on V and R; on different rows the two differ by
    chance alone, and more than by calibration, so here `plain` has the rows of `value`.

    >>> p, y = [0.5] * 8, [0, 0, 0, 1, 0, 1, 0, 0]
    >>> result = calibrated_losses(p, y, bias_rows=[True] * 4 + [False] * 4)
    >>> round(result.value, 6), round(result.plain, 6), round(result.shift, 6)
    (0.562335, 0.693147, 1.098612)
    """
    kind = biased_loss(loss)
    samples = kind.check(p, y, sample_weight)
    held = samples.weights > 0.0
    fitted_on = bias_split(held, bias_rows, bias_share, seed)
    rest = samples.select(held & ~fitted_on)
    shift = kind.fit(samples.select(fitted_on))
    return CalibratedLoss(
        value=kind.mean(rest, shift),
        plain=kind.mean(rest),
        plain_on_all=kind.mean(samples),
        shift=shift,
        bias_rows=fitted_on,
    )


def calibrated_and_plain(
    p: Floats,
    y: Floats,
    sample_weight: Floats,
    bias_rows: Mask,
    losses: Sequence[Loss] = ("log", "quadratic"),
) -> dict[str, float]:
    """Calibrated losses, and the plain ones on the same rows, by their names in JSON.

    Those of log loss are nan where the bias rows do not hold both outcomes; arguments are (n,).
    """
    numbers: dict[str, float] = {}
    for loss in losses:
        pair = float("nan"), float("nan")
        if loss == "quadratic" or both_outcomes(y[bias_rows & (sample_weight > 0.0)]):
            found = calibrated_losses(p, y, loss, bias_rows=bias_rows, sample_weight=sample_weight)
            pair = found.value, found.plain
        numbers |= zip(_WITH_PLAIN[loss], pair, strict=True)
    return numbers


_WITH_PLAIN: Mapping[Loss, tuple[str, str]] = {
    "log": ("calibrated_log_loss", "log_loss_beside_calibrated"),
    "quadratic": ("calibrated_quadratic_loss", "mse_beside_calibrated"),
}


class BiasOptions(TypedDict, total=False):
    """Arguments of `calibrated_losses`, which explains them."""

    bias_share: float
    seed: int
    bias_rows: ArrayLike | None
    sample_weight: ArrayLike | None


def calibrated_log_loss(p: ArrayLike, y: ArrayLike, **how: Unpack[BiasOptions]) -> float:
    """The `value` of `calibrated_losses` with loss "log", whose other arguments it takes.

    >>> rows = [True, True, False, False]
    >>> round(calibrated_log_loss([0.5] * 4, [0, 1, 0, 1], bias_rows=rows), 6)
    0.693147
    """
    return calibrated_losses(p, y, "log", **how).value


def calibrated_quadratic_loss(p: ArrayLike, y: ArrayLike, **how: Unpack[BiasOptions]) -> float:
    """The `value` of `calibrated_losses` with loss "quadratic", whose other arguments it takes.

    Every prediction is 2 too high, which the first two rows show:

    >>> rows = [True, True, False, False]
    >>> calibrated_quadratic_loss([3.0, 5.0, 4.0, 6.0], [1.0, 3.0, 3.0, 3.0], bias_rows=rows)
    1.0
    """
    return calibrated_losses(p, y, "quadratic", **how).value


def bias_split(held: Mask, bias_rows: ArrayLike | None, share: float, seed: int) -> Mask:
    """Mask of the rows, (n,), that the bias is fitted on; all of them are among those held, (n,).

    Given `bias_rows` it is those. Otherwise `share` of the held rows, at least one and not all, is
    drawn by the seed, from their positions only; none of fewer than two.
    """
    if bias_rows is not None:
        return held & check_mask("bias_rows", bias_rows, held)
    if not 0.0 < share < 1.0:
        raise ValueError(f"bias_share = {share}: must be between 0 and 1")
    rows = np.flatnonzero(held)
    drawn = np.zeros(len(held), bool)
    if len(rows) > 1:
        size = min(max(round(share * len(rows)), 1), len(rows) - 1)
        drawn[np.random.default_rng(seed).permutation(rows)[:size]] = True
    return drawn


@dataclass(frozen=True, slots=True)
class BiasedLoss:
    """A loss whose predictions may all be off by one shift.

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


_LARGEST = 1e150
"""The square of a residual of such values is still a float."""


def _check_finite(p: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Predictions:
    predictions, outcomes = _moderate("predictions", p), _moderate("outcomes", y)
    weights = check_weights(sample_weight, len(predictions))
    check_equal_lengths(predictions=predictions, outcomes=outcomes, sample_weight=weights)
    return Predictions(predictions, outcomes, weights)


def _moderate(name: str, values: ArrayLike) -> Floats:
    array = as_vector(name, values)
    rule = f"every value must be finite and within {_LARGEST:g} of 0"
    return all_obey(name, array, np.abs(array) <= _LARGEST, rule)


def _mean_residual(predictions: Predictions) -> float:
    return weighted_mean(predictions.outcomes - predictions.probabilities, predictions.weights)


def _quadratic_losses(predictions: Predictions, shift: float | Floats) -> Floats:
    losses: Floats = (predictions.outcomes - (predictions.probabilities + shift)) ** 2
    return losses


@dataclass(frozen=True, slots=True, eq=False)
class RollingCalibratedLoss:
    """A rolling calibrated loss beside the plain one, over all scored periods and for each.

    value : mean loss of the shifted predictions over all rows but those of the first period.
    plain : mean loss of the predictions as they are, on the same rows.
    periods : the k scored periods, ascending: all but the first.
    shifts : (k,) the shift of each, fitted on the period before it.
    weights : (k,) rows of each, or their weight.
    values, plains : (k,) the two losses of each.
    """

    value: float
    plain: float
    periods: tuple[Hashable, ...]
    shifts: Floats
    weights: Floats
    values: Floats
    plains: Floats


def rolling_calibrated_losses(
    p: ArrayLike,
    y: ArrayLike,
    periods: Periods,
    loss: Loss = "log",
    *,
    sample_weight: ArrayLike | None = None,
) -> RollingCalibratedLoss:
    """Shift every period by the bias of the period before it, and measure with and without.

    The bias can be fitted on the past only. The first period has none before it and is not scored;
    the period before is the last one that has rows.

    p, y, loss : as in `calibrated_losses`.
    periods : (n,) keys of one kind that can be sorted, such as 201501, "2015-01" or a date.

    `value` and `plain` are nan with fewer than two periods. ValueError when periods cannot be
    sorted and, for "log", when the outcomes of one before the last are all 0 or all 1.

    Source: Paper 003, section 5.5: LSTMs for stock returns, c* of the previous month.

    >>> p, y = [0.5] * 8, [0, 0, 0, 1, 0, 1, 0, 0]
    >>> result = rolling_calibrated_losses(p, y, [5] * 4 + [6] * 4)
    >>> result.periods, result.shifts.round(6), result.values.round(6), result.plains.round(6)
    ((6,), array([1.098612]), array([0.562335]), array([0.693147]))
    """
    kind = biased_loss(loss)
    samples = kind.check(p, y, sample_weight)
    names, codes = _encode(periods, samples)
    held = samples.weights > 0.0
    samples = samples.select(held)
    shifts = _shifts(kind, samples, names, codes)
    scored = codes > 0
    rest, period_of = samples.select(scored), codes[scored] - 1
    losses = kind.losses(rest, shifts[period_of]), kind.losses(rest, 0.0)
    weights = sum_at(period_of, rest.weights, len(shifts))
    shares = rest.weights / weights[period_of]
    values, plains = (sum_at(period_of, each * shares, len(weights)) for each in losses)
    return RollingCalibratedLoss(
        value=kind.mean(rest, shifts[period_of]),
        plain=kind.mean(rest),
        periods=tuple(names[1:]),
        shifts=shifts,
        weights=weights,
        values=values,
        plains=plains,
    )


def _shifts(
    kind: BiasedLoss, samples: Predictions, names: list[Hashable], codes: Integers
) -> Floats:
    """The bias of every period but the last, (k,)."""
    shifts = np.empty(max(len(names) - 1, 0))
    for k in range(len(shifts)):
        try:
            shifts[k] = kind.fit(samples.select(codes == k))
        except ValueError as error:
            raise ValueError(f"period {names[k]!r}: {error}") from None
    return shifts


def _encode(periods: Periods, samples: Predictions) -> tuple[list[Hashable], Integers]:
    """The periods that have weight, sorted, and which of them each row with weight is in."""
    keys = list(periods.tolist() if isinstance(periods, np.ndarray) else periods)
    check_equal_lengths(probabilities=samples.probabilities, periods=np.empty(len(keys)))
    wrong = next((row for row, key in enumerate(keys) if key is None or key != key), None)
    if wrong is not None:
        raise ValueError(f"periods[{wrong}] = {keys[wrong]}: must be a key that can be sorted")
    present = [key for key, weight in zip(keys, samples.weights, strict=True) if weight > 0.0]
    try:
        names = sorted(dict.fromkeys(present))
    except TypeError as error:
        raise ValueError(f"periods must be keys of one kind that can be sorted: {error}") from None
    code_of = {name: code for code, name in enumerate(names)}
    return names, np.fromiter((code_of[key] for key in present), np.int64, len(present))


_LOSSES: Mapping[str, BiasedLoss] = {
    "log": BiasedLoss(Predictions.check, bias_shift_of, _log_losses),
    "quadratic": BiasedLoss(_check_finite, _mean_residual, _quadratic_losses),
}
