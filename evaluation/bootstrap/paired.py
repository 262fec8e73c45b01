"""The paired bootstrap: is one model better than another, or was it luck?

Whole blocks of rows are drawn, the same for both models. `Difference` is what comes of it: of one
metric with `paired_bootstrap`, of many with `resample_all` and `paired_difference`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtrit

from calibrators.samples import Floats, check_equal_lengths, check_unit_interval
from evaluation.bootstrap.blocks import (
    BlockCells,
    Blocks,
    BlockSums,
    Name,
    Progress,
    Resampled,
    observed,
    resample,
)
from evaluation.bootstrap.ranking import BlockAuc
from evaluation.metrics.auc import auc_of
from evaluation.metrics.predictions import Campaigns, Predictions

_FEWEST_FREE = 0.1
_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of A minus the same metric of B, with its interval over draws of blocks.

    value : A minus B, on the rows as they are.
    lower, upper : ends of the interval; one without 0 inside is a difference beyond chance.
    standard_error : standard deviation over the draws.
    share_below : share of the draws in which A is below B, equal ones counting one half.
    undefined : share of the draws in which the difference is undefined; they are left out.
    """

    value: float
    lower: float
    upper: float
    standard_error: float
    share_below: float
    undefined: float = 0.0

    @classmethod
    def of(cls, value: float, drawn: Floats, blocks: float, *, confidence: float = 0.95) -> Self:
        """The difference `value` of the rows as they are, and `drawn`, (draws,), in every draw.

        `blocks` is their effective number: it sets the tails that the interval leaves out, see
        `expanded_tail`. All but the value is nan where there are fewer than 2.
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
        held = drawn[~np.isnan(drawn)]
        undefined = 1.0 - len(held) / len(drawn) if len(drawn) else float("nan")
        if np.isnan(value) or not blocks > 1.0 or not len(held):
            return cls(value, *(float("nan"),) * 4, undefined)
        tail = expanded_tail(confidence, blocks)
        lower, upper = np.quantile(held, [tail, 1.0 - tail], method="inverted_cdf")
        below = np.mean(held < 0.0) + 0.5 * np.mean(held == 0.0)
        return cls(
            value, float(lower), float(upper), sample_deviation(held), float(below), undefined
        )

    @property
    def sign(self) -> int:
        """-1 where A is lower beyond chance, 1 where it is higher, 0 where nobody can tell."""
        return int(self.lower > 0.0) - int(self.upper < 0.0)

    def blocks_for(self, blocks: float, *, power: float = 0.8, confidence: float = 0.95) -> float:
        """Blocks it would take, where now there are `blocks`, to see a difference of this size.

        Roughly: if the true difference were the value, that many blocks would put 0 outside of
        the interval with probability `power`, since the standard error falls with their root.
        Infinite where the value is 0, nan where the standard error is unknown.
        """
        reach = float(ndtri(0.5 + confidence / 2.0) + ndtri(power))
        if self.value == 0.0 and self.standard_error > 0.0:
            return float("inf")
        return blocks * (reach * self.standard_error / self.value) ** 2 if self.value else np.nan


def less(a: Floats, b: Floats) -> Floats:
    """a - b, exactly 0 where they differ by rounding alone.

    Two ways to the same number part in its last digits, always the same way: of every draw that
    would be a difference beyond chance.
    """
    rounding = _ROUNDING * np.maximum(np.abs(a), np.abs(b))
    with np.errstate(invalid="ignore"):
        difference = a - b
        alike = np.isfinite(difference) & (np.abs(difference) <= rounding)
    return np.where(alike, 0.0, difference)


def expanded_tail(confidence: float, blocks: float) -> float:
    """Share of the draws that an interval leaves out at each end.

    Draws of B blocks vary by the factor sqrt((B - 1) / B) too little, and how much they vary is
    itself uncertain: Student's t instead of the normal distribution makes up for both.
    """
    free = max(blocks - 1.0, _FEWEST_FREE)
    reach = float(stdtrit(free, 0.5 + confidence / 2.0)) * (1.0 + 1.0 / free) ** 0.5
    return float(ndtr(-reach))


def sample_deviation(drawn: Floats) -> float:
    """Standard deviation of draws, (n,); nan of fewer than two, and where any is not finite."""
    if len(drawn) < 2 or not np.isfinite(drawn).all():
        return float("nan")
    return float(drawn.std(ddof=1))


Metric = str | Callable[..., float]
Contrast = Callable[[Floats, Floats], Floats]

MOST_RANKED_DRAWS: Final = 300
"""Draws of what takes cells, such as GC-3 and AUC: they take a thousand times as long as sums."""


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    y: ArrayLike,
    blocks: Campaigns,
    *,
    metric: Metric = "log_loss",
    draws: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Difference:
    """Metric of A minus metric of B on the same rows, and how far chance moves that difference.

    Whole blocks of rows are drawn with replacement, as many as there are, and both models are
    measured on the same draw: what a good or a bad day does to both cancels. Rows of one block
    share what a model has wrong about it, so drawing single rows would find too much. An interval
    without 0 says that the sign of the difference would come out alike on other such blocks.

    a, b : (n,) probabilities in [0, 1] of the two models.
    blocks : (n,) any hashable key of the block of each row, such as (campaign, day).
    metric : "auc", "cal_1" (that is max(PCOC, 1 / PCOC) - 1), "log_loss", "mse", "pcoc"
        or "rig"; or any function (p, y, *, sample_weight), which is called
        twice for each draw, and so is slow.
    draws : at least 1.
    confidence : coverage of the interval, between 0 and 1.
    seed : of the draws.
    progress : called with (draws done, draws in all).

    Returns: All but its value is nan with fewer than two blocks. With fewer than ten the interval
    cannot be trusted; with few it is widened, but the draws repeat the same few numbers.

    The interval is the percentile one, its tails widened for few or unequal blocks: Student's t
    with B - 1 degrees of freedom and the factor sqrt(B / (B - 1)), where B = (sum w^2)^2 / sum w^4
    over the blocks' weights w. From 20,000 rows on, "auc" takes probabilities within 1 % of each
    other as tied in the draws, but not in the value.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13, for
    percentile intervals; Davison and Hinkley, Bootstrap Methods and their Application (1997),
    section 3.8, for drawing whole groups; Hesterberg, The American Statistician 69 (2015), for the
    tails.

    Twelve days on which B predicts a fifth too much:

    >>> day = [d for d in range(12) for _ in range(50)]
    >>> y = [float(row % 10 == 0) for row in range(600)]
    >>> found = paired_bootstrap([0.10] * 600, [0.12] * 600, y, day)
    >>> round(found.value, 5), found.sign
    (-0.00199, -1)
    """
    check_equal_lengths(a=check_unit_interval("a", a), b=check_unit_interval("b", b))
    models = [Predictions.check(p, y, sample_weight) for p in (a, b)]
    every = Blocks.of(blocks)
    check_equal_lengths(probabilities=models[0].probabilities, blocks=every.codes)
    held = models[0].weights > 0.0
    part = every.part(held)
    metrics = {
        side: _resampled(each.select(held), part, metric) for side, each in enumerate(models)
    }
    # Only of many rows are the draws of the AUC not exact.
    values = [
        auc_of(each) if metric == "auc" else observed(metrics[side], part.count)
        for side, each in enumerate(models)
    ]
    drawn = resample(metrics, part.count, draws=draws, seed=seed, progress=progress)
    effective = part.effective(models[0].weights[held])
    return paired_difference(values, (drawn[0], drawn[1]), effective, confidence=confidence)


def resample_all(
    sums: Mapping[Name, Resampled],
    ranked: Mapping[Name, Resampled],
    blocks: int,
    *,
    draws: int,
    seed: int,
    progress: Progress | None,
) -> dict[Name, Floats]:
    """Every metric in every draw; of those that are `ranked`, the first `MOST_RANKED_DRAWS`."""
    few = min(draws, MOST_RANKED_DRAWS)
    return {
        **resample(sums, blocks, draws=draws, seed=seed),
        **resample(ranked, blocks, draws=few, seed=seed, progress=progress),
    }


def paired_difference(
    values: Sequence[float],
    drawn: Sequence[Floats],
    effective: float,
    *,
    confidence: float = 0.95,
    contrast: Contrast = less,
) -> Difference:
    """The difference of a metric of two models, from its two values and its draws, (draws,) each.

    `effective` is the effective number of blocks, `contrast` what is asked of A and B.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = contrast(*(np.array(each) for each in values))
        moved = contrast(*drawn)
    return Difference.of(float(value), moved, effective, confidence=confidence)


def _resampled(samples: Predictions, blocks: Blocks, metric: Metric) -> Resampled:
    if metric == "auc":
        return BlockAuc.of(BlockCells.of(samples, blocks))
    if isinstance(metric, str):
        return BlockSums.of(samples, blocks).metric(metric)
    return _Repeated(samples, blocks, metric)


@dataclass(frozen=True, slots=True, eq=False)
class _Repeated:
    """Any metric, called once for every draw with the rows' weights in it."""

    samples: Predictions
    blocks: Blocks
    metric: Callable[..., float]

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        return np.array([self._of(times[self.blocks.codes]) for times in multiplicities])

    def _of(self, times: Floats) -> float:
        samples = self.samples
        weights = samples.weights * times
        return self.metric(samples.probabilities, samples.outcomes, sample_weight=weights)
