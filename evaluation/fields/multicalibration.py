"""Multicalibration: the worst cumulative calibration error over segments, in sigmas.

In each segment the rows are sorted by probability, and weight times (outcome - probability) is
added up from the lowest on. The error of the segment (ECCE, Kuiper's statistic) is the highest
running sum less the lowest, 0 being one of them: it grows where a stretch of probabilities is too
high or too low, and takes no bins. Over the standard deviation that it has if the probabilities
are right, it is in sigmas. Where they are right it is about the range of a Brownian motion, 1.6 in
the mean, so that 2.5 and more comes by chance in 5 % of the segments.

Arguments and errors are those of `evaluation.metrics`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, ndtr

from calibrators.samples import Floats, Integers, sum_at
from evaluation.fields.segments import (
    Family,
    FieldCodes,
    FieldValues,
    SegmentLimits,
    ValueColumn,
    check_fields,
)
from evaluation.metrics.predictions import Mask, Predictions, quotients
from evaluation.streaming.rows import slice_order

DETECTABLE_SIGMAS: Final = 5.0
"""An error of so many sigmas is detected with near certainty (as in mcgrad)."""
_WORST_KEPT: Final = 20
_SERIES: Final = np.arange(1, 41)
# Below, the series in exp(-1 / x^2) converges at once, above the one in exp(-x^2).
_BRANCH: Final = 1.5


def kuiper_chance(sigmas: ArrayLike) -> Floats:
    """How likely calibrated probabilities show an error of so many sigmas or more in a segment.

    The chance that the range of a Brownian motion on [0, 1] exceeds the value, of its shape. Exact
    in the far tail too, where mcgrad's stops at 2.2e-16.

    Source: Feller (1951), The Asymptotic Distribution of the Range of Sums of Independent Random
    Variables; as in mcgrad's `ecce_pvalue_from_sigma`.

    >>> kuiper_chance([1.0, 2.5, 5.0]).round(6)
    array([9.36635e-01, 4.96730e-02, 2.00000e-06])
    """
    x = np.asarray(sigmas, np.float64)[..., np.newaxis]
    k = (_SERIES - 0.5) ** 2 * np.pi**2
    with np.errstate(under="ignore"):
        square = np.clip(x, 0.1, _BRANCH) ** 2
        below = (8.0 / square + 2.0 / k) * np.exp(-2.0 * k / square)
    signs = np.where(_SERIES % 2 == 1, 8.0, -8.0) * _SERIES
    above = (signs * ndtr(-_SERIES * np.maximum(x, _BRANCH))).sum(axis=-1)
    chance: Floats = np.where(x[..., 0] < _BRANCH, 1.0 - below.sum(axis=-1), above)
    return np.clip(chance, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentSums:
    """Sums over the rows of the segments of one family, (k,) each.

    samples : rows, each as often as its weight repeats it.
    weights, expected, positives : of the weights, and of weight times probability and outcome.
    variance : of the positives, if the probabilities are right.
    spreads : highest less lowest running sum of outcome less probability, see the module.
    """

    samples: Floats
    weights: Floats
    expected: Floats
    positives: Floats
    variance: Floats
    spreads: Floats

    @property
    def chances(self) -> Floats:
        """How likely chance alone makes the error of each segment so large: `kuiper_chance`, times
        by how much the tail of a Poisson variable is heavier than that of a normal one, which few
        positives need."""
        plain = kuiper_chance(self.sigmas)
        with np.errstate(divide="ignore", invalid="ignore"):
            heavy = gammainc(self.variance + self.spreads, self.variance)
            light = ndtr(-self.spreads / np.sqrt(self.variance))
            chance = plain * np.maximum(heavy / light, 1.0)
        # So far out that the normal tail is 0.
        chance = np.where(np.isnan(chance), 8.0 * heavy, chance)
        return np.clip(np.where(self.variance > 0.0, chance, plain), 0.0, 1.0)

    @property
    def sigmas(self) -> Floats:
        """The error of each segment; infinite where what cannot vary is wrong, 0 where it is right
        or has no row."""
        found = quotients(self.spreads, np.sqrt(self.variance))
        return np.where(self.spreads == 0.0, 0.0, found)


def cell_spreads(differences: Floats) -> Floats:
    """The highest running sum less the lowest, over the last axis; (k, cells) to (k,).

    Of cells of probability, lowest first: within one, errors are taken to be of one sign. A few
    thousand cells that a segment's rows fill evenly leave its error within 2 %.
    """
    running = np.cumsum(differences, axis=-1)
    highest = np.maximum(running.max(axis=-1, initial=0.0), 0.0)
    return np.asarray(highest - np.minimum(running.min(axis=-1, initial=0.0), 0.0))


def spreads_of(
    differences: Floats, segments: NDArray[np.integer[Any]], size: int, tied: Integers | None = None
) -> Floats:
    """Of each segment, (size,), the highest running sum less the lowest.

    The rows' segments ascend, (n,); of each segment rows come by ascending probability, and between
    those whose `tied` is one no sum counts.
    """
    spreads = np.zeros(size)
    if not len(segments):
        return spreads
    opens = np.concatenate((np.ones(1, bool), segments[1:] != segments[:-1]))
    starts = np.flatnonzero(opens)
    # Each segment begins by taking back what the one before it came to, so that one running sum
    # serves all, and none is rounded to the size of another.
    steps = differences.copy()
    wrong = np.logical_or.reduceat(steps != 0.0, starts)
    steps[starts[1:]] -= np.add.reduceat(differences, starts)[:-1]
    running = np.cumsum(steps, out=steps)
    if tied is not None:
        # Inside of a tie the sum is none that counts; 0 always is.
        running[:-1][(tied[1:] == tied[:-1]) & ~opens[1:]] = 0.0
    highest = np.maximum(np.maximum.reduceat(running, starts), 0.0)
    lowest = np.minimum(np.minimum.reduceat(running, starts), 0.0)
    # The rounding of the segments before it is no error of one without any.
    spreads[segments[starts]] = np.where(wrong, highest - lowest, 0.0)
    return spreads


@dataclass(frozen=True, slots=True)
class SegmentError:
    """A segment and its error.

    fields : the value of each field that names it; of none, all rows.
    samples, expected, positives : its rows, and the predicted and the actual positives.
    error : cumulative calibration error, as a probability.
    sigmas : over what chance makes of it.
    p_value : how often chance makes it so large in this one segment.
    """

    fields: Mapping[str, str]
    samples: float
    expected: float
    positives: float
    error: float
    sigmas: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Multicalibration:
    """The worst error over all segments.

    sigmas : of the worst segment; nan without segments.
    p_value : of that one segment, as mcgrad gives it, which does not count how many were looked at.
    p_value_corrected : how often, at most, chance makes any of the segments so bad, however they
        overlap and however few their positives (the least of `SegmentSums.chances`, times their
        number): an alarm below 0.01 is false in 1 of 100 looks at most.
    error, relative : the sigmas as a probability by the standard deviation of all rows, and over
        the rate of the rarer outcome.
    detectable, detectable_relative : the same of `DETECTABLE_SIGMAS`: the least error that this
        many rows show.
    segments : how many were looked at.
    worst : the worst of them, worst first.
    """

    sigmas: float
    p_value: float
    p_value_corrected: float
    error: float
    relative: float
    detectable: float
    detectable_relative: float
    segments: int
    worst: Sequence[SegmentError]

    @classmethod
    def of(
        cls,
        whole: SegmentSums,
        segments: Iterable[tuple[SegmentSums, Callable[[int], Mapping[str, str]]]],
        limits: SegmentLimits,
    ) -> Self:
        """The worst of some tables of segments, from their sums: all rows; each table, and which
        values of fields name its i-th segment; and which segments count."""
        found: list[SegmentError] = []
        looked_at, least = 0, 1.0
        for sums, name_of in segments:
            kept = np.flatnonzero(limits.hold(sums.samples, sums.variance, sums.spreads))
            looked_at += len(kept)
            least = min(least, float(sums.chances[kept].min(initial=1.0)))
            worst = kept[np.argsort(-sums.sigmas[kept], kind="stable")][:_WORST_KEPT]
            found += (_error(sums, i, name_of(i)) for i in worst.tolist())
        found.sort(key=lambda segment: -segment.sigmas)
        sigmas, p_value = (found[0].sigmas, found[0].p_value) if found else (np.nan, np.nan)
        deviation, rate = _scale(whole)
        return cls(
            sigmas=sigmas,
            p_value=p_value,
            p_value_corrected=min(1.0, looked_at * least) if found else np.nan,
            error=sigmas * deviation,
            relative=sigmas * deviation / rate,
            detectable=DETECTABLE_SIGMAS * deviation,
            detectable_relative=DETECTABLE_SIGMAS * deviation / rate,
            segments=looked_at,
            worst=tuple(found[:_WORST_KEPT]),
        )


def _error(sums: SegmentSums, i: int, fields: Mapping[str, str]) -> SegmentError:
    sigmas = float(sums.sigmas[i])
    return SegmentError(
        fields,
        float(sums.samples[i]),
        float(sums.expected[i]),
        float(sums.positives[i]),
        float(sums.spreads[i] / sums.weights[i]) if sums.weights[i] else np.nan,
        sigmas,
        float(kuiper_chance(sigmas)),
    )


def _scale(whole: SegmentSums) -> tuple[float, float]:
    """Standard deviation of the error of all rows, and the rate of the rarer outcome; nan for
    what there is not."""
    weight = float(whole.weights.sum())
    if not weight:
        return np.nan, np.nan
    rate = float(whole.positives.sum()) / weight
    rarer = min(rate, 1.0 - rate)
    return float(np.sqrt(whole.variance.sum())) / weight, rarer if rarer > 0.0 else np.nan


def multicalibration(
    p: ArrayLike,
    y: ArrayLike,
    fields: Mapping[str, FieldValues | ValueColumn],
    *,
    limits: SegmentLimits | None = None,
    ties: Literal["together", "apart"] = "together",
    weights_are: Literal["repetitions", "importance"] = "repetitions",
    sample_weight: ArrayLike | None = None,
) -> Multicalibration:
    """The worst cumulative calibration error over segments of fields and of their pairs.

    fields : (n,) values of each field: any hashable keys, or columns.
    limits : which segments there are; those of fields and pairs unless given.
    ties : rows of one probability stand together, so that their order is of no effect, or "apart"
        in the order that an unstable sort leaves them in, as in mcgrad.
    weights_are : a weight of 3 is three repetitions, or multiplies an outcome, whose variance then
        has its square, as in mcgrad.

    nan without rows. Rows of weight 0 are as if they were not there. Probabilities of 0 and 1 that
    are wrong make it infinite.

    Source: Guy et al. (2025), Measuring multi-calibration, arXiv 2506.11251, and its public form,
    MulticalibrationError of the package mcgrad, whose mce_sigma, mce_pvalue, mce, mce_relative and
    mde are sigmas, p_value, error, 100 relative and detectable here, with ties "apart", weights of
    "importance" and SegmentLimits(max_depth, max_values, max_values, min_samples) of its options.

    Five clicks where two were predicted, and none where two were:

    >>> y, device = [1] * 5 + [0] * 35, ["phone"] * 20 + ["tv"] * 20
    >>> found = multicalibration([0.1] * 40, y, {"device": device})
    >>> round(found.sigmas, 3), found.worst[0].fields, found.segments
    (2.236, {'device': 'phone'}, 3)
    """
    predictions = Predictions.check(p, y, sample_weight)
    columns = check_fields(fields, predictions.probabilities)
    if sample_weight is not None:
        held = predictions.weights > 0.0
        predictions = predictions.select(held)
        columns = {
            name: ValueColumn(column.names, column.numbers[held])
            for name, column in columns.items()
        }
    codes = FieldCodes(limits or SegmentLimits(), columns)
    rows = SortedRows(predictions, ties == "together", weights_are == "importance")
    sums = rows.families(codes, {name: column.numbers for name, column in columns.items()})
    return worst_of(sums, codes, {name: column.names for name, column in columns.items()})


def worst_of(
    families: Mapping[Family, SegmentSums], codes: FieldCodes, names: Mapping[str, Sequence[str]]
) -> Multicalibration:
    """The worst of all segments of families, among them that without a field, which is all rows;
    by the names of each field's values."""
    named = [(sums, partial(codes.named, family, names)) for family, sums in families.items()]
    return Multicalibration.of(families[()], named, codes.limits)


class SortedRows:
    """Rows by ascending probability, (n,) each.

    order : which rows they are.
    differences : weight times (outcome - probability).
    variance : of weight times outcome.
    samples : as how many rows each counts.
    tied : the number of the row's probability; None where no two are taken together.
    """

    def __init__(
        self, predictions: Predictions, together: bool = True, importance: bool = False
    ) -> None:
        """The rows, each of a weight above 0; see `multicalibration`."""
        self.order = np.argsort(predictions.probabilities)
        p, y = predictions.probabilities[self.order], predictions.outcomes[self.order]
        w = predictions.weights[self.order]
        new: Mask = p[1:] != p[:-1]
        self.tied: Integers | None = None
        if together and not new.all():
            self.tied = np.concatenate((np.zeros(1, np.int64), np.cumsum(new, dtype=np.int64)))
        self.variance, self.samples = p * (1.0 - p) * w, w
        if importance:
            self.variance, self.samples = self.variance * w, np.ones(len(w))
        self.predictions, self.differences = Predictions(p, y, w), (y - p) * w

    def families(
        self, codes: FieldCodes, numbers: Mapping[str, NDArray[np.integer[Any]]]
    ) -> dict[Family, SegmentSums]:
        """The sums of the segments of each family, by the numbers of the rows' values, (n,) of each
        field, in their order before they were sorted."""
        ordered = {name: found[self.order] for name, found in numbers.items()}
        found = {}
        for family in codes.families:
            segments = codes.codes(family, ordered, len(self.order))
            found[family] = self._sums(segments, prod(codes.shape(family)))
        return found

    def _sums(self, segments: Integers, size: int) -> SegmentSums:
        rows = self.predictions
        return SegmentSums(
            sum_at(segments, self.samples, size),
            sum_at(segments, rows.weights, size),
            sum_at(segments, rows.expected, size),
            sum_at(segments, rows.positives, size),
            sum_at(segments, self.variance, size),
            self._spreads(segments, size),
        )

    def _spreads(self, segments: Integers, size: int) -> Floats:
        rows, ordered = slice_order(segments)
        tied = None if self.tied is None else self.tied[rows]
        return spreads_of(self.differences[rows], ordered, size, tied)
