"""Rolling calibrated losses: each period is judged with the bias of the one before."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import Floats, Integers, check_equal_lengths
from evaluation.metrics.bias import BiasedLoss, Loss, biased_loss
from evaluation.metrics.calibrated_loss import samples_at
from evaluation.metrics.predictions import Predictions
from evaluation.metrics.sums import sum_at

Periods = Sequence[Hashable] | NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RollingCalibratedLoss:
    """A rolling calibrated loss beside the plain one, over all judged periods and for each.

    Attributes
    ----------
    value : mean loss of the shifted predictions over all rows but those of the first period.
    plain : mean loss of the predictions as they are, on the same rows.
    periods : the k judged periods, ascending: all but the first.
    shifts : (k,) what each was judged with, fitted on the period before it.
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


def rolling_calibrated_log_loss(
    p: ArrayLike, y: ArrayLike, periods: Periods, *, sample_weight: ArrayLike | None = None
) -> float:
    """Log loss of each period after the shift of log-odds that was right for the one before.

    The `value` of `rolling_calibrated_losses` with loss "log", which explains the arguments.

    Examples
    --------
    >>> p, y = [0.5] * 8, [0, 0, 0, 1, 0, 1, 0, 0]
    >>> round(rolling_calibrated_log_loss(p, y, ["2015-01"] * 4 + ["2015-02"] * 4), 6)
    0.562335
    """
    return rolling_calibrated_losses(p, y, periods, "log", sample_weight=sample_weight).value


def rolling_calibrated_quadratic_loss(
    p: ArrayLike, y: ArrayLike, periods: Periods, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean square error of each period after the mean residual of the one before is added.

    The `value` of `rolling_calibrated_losses` with loss "quadratic", which explains the arguments.

    Examples
    --------
    >>> p, y = [3.0, 5.0, 4.0, 6.0], [1.0, 3.0, 3.0, 3.0]
    >>> rolling_calibrated_quadratic_loss(p, y, [201501, 201501, 201502, 201502])
    1.0
    """
    return rolling_calibrated_losses(p, y, periods, "quadratic", sample_weight=sample_weight).value


def rolling_calibrated_losses(
    p: ArrayLike,
    y: ArrayLike,
    periods: Periods,
    loss: Loss = "log",
    *,
    sample_weight: ArrayLike | None = None,
) -> RollingCalibratedLoss:
    """Shift every period by the bias of the period before it, and measure with and without.

    As in life, where the bias can be learnt from what is over only. The first period has none
    before it and is not judged; the period before is the last one that has rows.

    Parameters
    ----------
    p, y, loss : as in `calibrated_losses`.
    periods : (n,) keys of one kind that can be sorted, such as 201501, "2015-01" or a date.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    RollingCalibratedLoss
        `value` and `plain` are nan with fewer than two periods.

    Raises
    ------
    ValueError
        For "log", when the outcomes of a period other than the last are all 0 or all 1; it is
        named. When periods cannot be sorted, columns differ in length or a value breaks its rule.

    References
    ----------
    Paper 003, section 5.5: LSTMs for stock returns, c* of the previous month.

    Examples
    --------
    >>> p, y = [0.5] * 8, [0, 0, 0, 1, 0, 1, 0, 0]
    >>> result = rolling_calibrated_losses(p, y, [5] * 4 + [6] * 4)
    >>> result.periods, result.shifts.round(6), result.values.round(6), result.plains.round(6)
    ((6,), array([1.098612]), array([0.562335]), array([0.693147]))
    """
    kind = biased_loss(loss)
    samples = kind.check(p, y, sample_weight)
    names, codes = _encode(periods, samples)
    held = samples.weights > 0.0
    samples = samples_at(samples, held)
    shifts = _shifts(kind, samples, names, codes)
    judged = codes > 0
    rest, period_of = samples_at(samples, judged), codes[judged] - 1
    losses = kind.losses(rest, shifts[period_of]), kind.losses(rest, 0.0)
    weights = sum_at(period_of, rest.weights, len(shifts))
    values, plains = (_means(each, rest.weights, period_of, weights) for each in losses)
    return RollingCalibratedLoss(
        value=kind.mean(rest, shifts[period_of]),
        plain=kind.mean(rest),
        periods=tuple(names[1:]),
        shifts=shifts,
        weights=weights,
        values=values,
        plains=plains,
    )


def _means(losses: Floats, weights: Floats, period_of: Integers, totals: Floats) -> Floats:
    return sum_at(period_of, losses * (weights / totals[period_of]), len(totals))


def _shifts(
    kind: BiasedLoss, samples: Predictions, names: list[Hashable], codes: Integers
) -> Floats:
    """The bias of every period but the last, (k,)."""
    shifts = np.empty(max(len(names) - 1, 0))
    for k in range(len(shifts)):
        try:
            shifts[k] = kind.fit(samples_at(samples, codes == k))
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
    names = _sorted(present)
    code_of = {name: code for code, name in enumerate(names)}
    return names, np.fromiter((code_of[key] for key in present), np.int64, len(present))


def _sorted(keys: list[Any]) -> list[Any]:
    try:
        return sorted(dict.fromkeys(keys))
    except TypeError as error:
        raise ValueError(f"periods must be keys of one kind that can be sorted: {error}") from None
