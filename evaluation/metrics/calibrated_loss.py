"""Calibrated losses: the loss that is left once a model's overall bias is taken out."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from evaluation.metrics.bias import Loss, Mask, bias_split, biased_loss
from evaluation.metrics.predictions import Predictions


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedLoss:
    """A calibrated loss beside the plain one.

    Attributes
    ----------
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


def calibrated_log_loss(
    p: ArrayLike,
    y: ArrayLike,
    *,
    bias_share: float = 0.1,
    seed: int = 0,
    bias_rows: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Log loss after one shift of all log-odds has made the total right.

    The `value` of `calibrated_losses` with loss "log"; all arguments are explained there. A model
    that is merely too high or too low everywhere is not punished, so training runs of one model
    differ less and two models are told apart with fewer runs. For the same reason it cannot see a
    model that improves calibration itself: print `pcoc` beside it.

    Examples
    --------
    The second half is judged with the bias of the first, where 1 of 4 came and 2 were promised:

    >>> p, y = [0.5] * 8, [0, 0, 0, 1, 0, 1, 0, 0]
    >>> bias_rows = [True] * 4 + [False] * 4
    >>> round(calibrated_log_loss(p, y, bias_rows=bias_rows), 6)
    0.562335
    """
    return calibrated_losses(
        p,
        y,
        "log",
        bias_share=bias_share,
        seed=seed,
        bias_rows=bias_rows,
        sample_weight=sample_weight,
    ).value


def calibrated_quadratic_loss(
    p: ArrayLike,
    y: ArrayLike,
    *,
    bias_share: float = 0.1,
    seed: int = 0,
    bias_rows: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean square error after one shift of all predictions has made their mean right.

    The `value` of `calibrated_losses` with loss "quadratic"; all arguments are explained there.
    Made for regression: predictions and outcomes may be any numbers, and nothing is clipped.

    Examples
    --------
    Every prediction is 2 too high, which the first two rows show:

    >>> p, y = [3.0, 5.0, 4.0, 6.0], [1.0, 3.0, 3.0, 3.0]
    >>> calibrated_quadratic_loss(p, y, bias_rows=[True, True, False, False])
    1.0
    """
    return calibrated_losses(
        p,
        y,
        "quadratic",
        bias_share=bias_share,
        seed=seed,
        bias_rows=bias_rows,
        sample_weight=sample_weight,
    ).value


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
    the log loss, and the residuals' variance / |V| on the quadratic.

    Parameters
    ----------
    p : (n,) for "log" probabilities in [0, 1], clipped to [1e-12, 1 - 1e-12]; for "quadratic" any
        predictions within 1e150 of 0.
    y : (n,) for "log" outcomes in [0, 1], where a fraction y counts as y of a positive and 1 - y
        of a negative; for "quadratic" any numbers within 1e150 of 0.
    loss : "log" or "quadratic".
    bias_share : share of the rows in V, between 0 and 1; at least one row, and not all.
    seed : draws V, by the rows' places: models compared on the same rows in the same order get
        the same V. Another order of the rows is another draw; `bias_rows` is free of that.
    bias_rows : (n,) True for the rows of V, instead of the draw (the earlier days, say).
    sample_weight : (n,) finite, at least 0. A row of weight w goes to V or to R as a whole; rows
        of weight 0 are in neither.

    Returns
    -------
    CalibratedLoss
        Its `value` is nan when V or R has no rows of positive weight.

    Raises
    ------
    ValueError
        For "log", when the outcomes of V are all 0 or all 1: draw more rows, or name rows that
        hold both. When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Fan et al. (paper 000), section 3, Algorithm 1; paper 003, section 3. Both set the calibrated
    loss on R against the plain one on V and R; on different rows the two differ by chance alone,
    and more than by calibration, so here `plain` has the rows of `value`.

    Examples
    --------
    >>> p, y = [0.5] * 8, [0, 0, 0, 1, 0, 1, 0, 0]
    >>> result = calibrated_losses(p, y, bias_rows=[True] * 4 + [False] * 4)
    >>> round(result.value, 6), round(result.plain, 6), round(result.shift, 6)
    (0.562335, 0.693147, 1.098612)
    """
    kind = biased_loss(loss)
    samples = kind.check(p, y, sample_weight)
    held = samples.weights > 0.0
    fitted_on = bias_split(held, bias_rows, bias_share, seed)
    rest = samples_at(samples, held & ~fitted_on)
    shift = kind.fit(samples_at(samples, fitted_on))
    return CalibratedLoss(
        value=kind.mean(rest, shift),
        plain=kind.mean(rest),
        plain_on_all=kind.mean(samples),
        shift=shift,
        bias_rows=fitted_on,
    )


def samples_at(samples: Predictions, chosen: Mask) -> Predictions:
    """The samples that are chosen by a mask, (n,)."""
    columns = (samples.probabilities, samples.outcomes, samples.weights)
    return Predictions(*(column[chosen] for column in columns))
