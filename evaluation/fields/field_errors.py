"""Field-RCE, Field-ECE and MF-RCE: by how much the total of each value of a field is off.

Chance alone keeps them from 0, the more the fewer positives a value has: read each beside its
floor, the mean that it would have if the probabilities were right. All of it works from sums by
value too. Arguments and errors are those of `evaluation.metrics`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincc, gammaln, xlog1py, xlogy

from calibrators.samples import Floats, check_equal_lengths, check_not_negative, sum_at
from evaluation.fields.segments import FieldValues, ValueColumn, check_fields
from evaluation.metrics.cal_n import EqualFrequencyBins, check_bins
from evaluation.metrics.gc_n import draws_of_floors, matched_binomials
from evaluation.metrics.predictions import Predictions, Runs, quotients, ratio, weighted_mean

# Beyond, the mean distance of a binomial from its mean is that of a normal variable to 1e-5.
_NORMAL: Final = 1e4


def field_rce(
    p: ArrayLike,
    y: ArrayLike,
    values: FieldValues | ValueColumn,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Field-RCE: mean over the values of a field of abs(sum p - sum y) / sum y, by their samples.

    values : (n,) the value of each row, any hashable keys.

    0 is right, 0.2 says that a typical row's value is off by 20 % of its clicks. Values without a
    positive are left out; nan when none is left.

    Source: Pan et al. (2020), Field-aware Calibration, equation (4), without its epsilon; "F-RCE"
    of the published evaluation of DESC (github.com/HaoYang0123/DESC, eval/eval_res.py).

    >>> field_rce([0.2, 0.2, 0.5, 0.5], [0, 1, 0, 1], ["a", "a", "b", "b"])
    0.3
    """
    return FieldSums.of_rows(Predictions.check(p, y, sample_weight), values).rce


def field_ece(
    p: ArrayLike,
    y: ArrayLike,
    values: FieldValues | ValueColumn,
    n: int = 1,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Field-ECE: sum over the values of a field of abs(sum p - sum y), over all samples.

    values : (n,) the value of each row, any hashable keys.
    n : bins of equal frequency that the rows of each value are cut into, each an error of its own.

    It is a difference of probabilities: large values count, rare clicks hardly do. nan without
    rows.

    Source: Pan et al. (2020), Field-aware Calibration, equation (3), n = 1; "F-W-ECE@n" of the
    published evaluation of DESC, see `field_rce`. Its bins are cut where ties happen to stand.

    >>> round(field_ece([0.2, 0.2, 0.5, 0.5], [0, 1, 0, 1], ["a", "a", "b", "b"]), 6)
    0.15
    """
    check_bins(n)
    predictions = Predictions.check(p, y, sample_weight)
    if n == 1:
        return FieldSums.of_rows(predictions, values).ece
    column = check_fields({"": values}, predictions.probabilities)[""]
    runs = Runs.of(
        predictions.probabilities, predictions.weights, column.numbers, len(column.names)
    )
    bins = EqualFrequencyBins(runs, n)
    errors = np.abs(bins.sums(runs.expected) - bins.sums(runs.sums(predictions.positives)))
    return float(quotients(errors.sum(), runs.weights.sum()))


def mf_rce(
    p: ArrayLike,
    y: ArrayLike,
    fields: Mapping[str, FieldValues | ValueColumn],
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """MF-RCE: the mean of Field-RCE over several fields.

    fields : the (n,) values of each. nan when a field has no value with a positive, or without
    fields.

    Source: Yang et al. (2024), Deep Ensemble Shape Calibration, arXiv 2401.09507. Its published
    evaluation prints the Field-RCE of one field at a time; this is their mean.

    >>> fields = {"device": ["a", "a", "b", "b"], "place": ["x", "y", "x", "y"]}
    >>> round(mf_rce([0.2, 0.2, 0.5, 0.5], [0, 1, 0, 1], fields), 6)
    0.475
    """
    predictions = Predictions.check(p, y, sample_weight)
    found = [FieldSums.of_rows(predictions, values).rce for values in fields.values()]
    return sum(found) / len(found) if found else float("nan")


@dataclass(frozen=True, eq=False)
class FieldSums:
    """Sums over the rows of each value of a field, (k,) each.

    names : the values.
    expected, positives : predicted and actual positives.
    variance : of the positives if the probabilities are right: the sum of p (1 - p).
    samples : how many rows, or their weight.
    """

    names: Sequence[str]
    expected: Floats
    positives: Floats
    variance: Floats
    samples: Floats

    @classmethod
    def check(
        cls,
        names: Sequence[str],
        expected: ArrayLike,
        positives: ArrayLike,
        variance: ArrayLike,
        samples: ArrayLike | None = None,
    ) -> Self:
        """Sums from elsewhere, all finite and at least 0; ValueError names what breaks the rule.

        Without samples they are taken from the sums, as if all rows of a value had one probability.
        """
        columns = {"expected": expected, "positives": positives, "variance": variance}
        if samples is not None:
            columns["samples"] = samples
        checked = {name: check_not_negative(name, column) for name, column in columns.items()}
        check_equal_lengths(names=np.array(names), **checked)
        predicted, actual, chance = (checked[name] for name in columns if name != "samples")
        rows = checked.get("samples", equal_trials(predicted, actual, chance))
        return cls(names, predicted, actual, chance, rows)

    @classmethod
    def of_rows(cls, predictions: Predictions, values: FieldValues | ValueColumn) -> Self:
        """The sums of checked rows, each of which has a value."""
        column = check_fields({"": values}, predictions.probabilities)[""]
        chances = predictions.expected * (1.0 - predictions.probabilities)
        columns = (predictions.expected, predictions.positives, chances, predictions.weights)
        return cls(
            column.names, *(sum_at(column.numbers, each, len(column.names)) for each in columns)
        )

    @property
    def rce(self) -> float:
        """Field-RCE."""
        errors = np.abs(self.expected - self.positives)
        return mean_relative_error(errors, self.positives, self.samples)

    @property
    def ece(self) -> float:
        """Field-ECE."""
        errors = np.abs(self.expected - self.positives)
        return float(quotients(errors.sum(), self.samples.sum()))

    @property
    def ece_floor(self) -> float:
        """Mean Field-ECE if the probabilities were right, in closed form."""
        distances = _mean_distance(self.expected, self.variance)
        return float(quotients(distances.sum(), self.samples.sum()))

    def rce_floor(self, seed: int = 0) -> float:
        """Mean Field-RCE if the probabilities were right, over draws of the positives.

        nan where no draw has a positive, as without values.
        """
        rng, k = np.random.default_rng(seed), len(self.names)
        if not k:
            return float("nan")
        draws = draws_of_floors(k)
        trials, chances = matched_binomials(self.expected, _certain(self.expected, self.variance))
        # By and by, so that ten thousand values take little memory; how many changes no bit.
        found = [
            mean_relative_error(np.abs(self.expected - drawn), drawn, self.samples)
            for drawn in (rng.binomial(trials, chances).astype(np.float64) for _ in range(draws))
        ]
        known = [value for value in found if not np.isnan(value)]
        return float(np.mean(known)) if known else float("nan")

    @property
    def left_out(self) -> float:
        """Share of the samples whose value has no positive, so that Field-RCE leaves it out."""
        return float(quotients(self.samples[self.positives <= 0.0].sum(), self.samples.sum()))

    @cached_property
    def sigmas(self) -> Floats:
        """Positives above what was predicted, in standard deviations, (k,); 0 where none can be."""
        missed = self.positives - self.expected
        return np.where(missed == 0.0, 0.0, quotients(missed, np.sqrt(self.variance)))

    @cached_property
    def p_values(self) -> Floats:
        """How often chance alone takes each value so far from what was predicted, (k,)."""
        return _chances(self.expected, self.positives, self.variance)

    @property
    def worst_first(self) -> list[int]:
        """The values that chance explains least first."""
        order: list[int] = np.lexsort((-np.abs(self.sigmas), self.p_values)).tolist()
        return order


def mean_relative_error(errors: Floats, positives: Floats, samples: Floats) -> float:
    """Mean over samples of the errors of values, (k,), as shares of their positives; those without
    a positive are left out, nan when none is left."""
    held = positives > 0.0
    return weighted_mean(errors[held] / positives[held], samples[held])


def _certain(expected: Floats, variance: Floats) -> Floats:
    """The sum of p ** 2, kept above what would need more trials than a binomial takes."""
    return np.asarray(np.maximum(expected - variance, np.maximum(expected**2, expected) * 1e-15))


def equal_trials(expected: Floats, positives: Floats, variance: Floats) -> Floats:
    """How many rows of one probability have this mean and this variance; at least the positives."""
    trials = np.where(expected > 0.0, quotients(expected**2, _certain(expected, variance)), 0.0)
    return np.maximum(trials, positives)


def _mean_distance(expected: Floats, variance: Floats) -> Floats:
    """Mean of abs(X - expected), X binomial with this mean and variance.

    De Moivre's formula: 2 m C(n, m) p^m (1 - p)^(n - m + 1) with m = floor(n p) + 1.
    """
    n, p = matched_binomials(expected, _certain(expected, variance))
    m = np.minimum(np.floor(n * p) + 1.0, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = gammaln(n + 1.0) - gammaln(m) - gammaln(n - m + 1.0)
        exact = 2.0 * np.exp(logs + xlogy(m, p) + xlog1py(n - m + 1.0, -p))
    normal = np.sqrt(2.0 * variance / np.pi)
    return np.where(variance > _NORMAL, normal, np.where((n > 0) & (p < 1.0), exact, 0.0))


def _chances(expected: Floats, positives: Floats, variance: Floats) -> Floats:
    """Two-sided p-values of counts with this mean and variance, of the expected's shape.

    A scaled Poisson variable has both. That is exact for small probabilities, and its tails are a
    little heavy for large ones.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(variance > 0.0, variance / expected, 1.0)
        mean = expected / scale
        above = np.where(positives > 0.0, gammainc(positives / scale, mean), 1.0)
        below = gammaincc((positives + 1.0) / scale, mean)
    chance = np.minimum(2.0 * np.minimum(above, below), 1.0)
    certain = np.where(np.isclose(positives, expected), 1.0, 0.0)
    return np.where((variance > 0.0) & (expected > 0.0), chance, certain)


@dataclass(frozen=True, slots=True)
class WorstValue:
    """The value of a field that chance explains least.

    pcoc : predicted over actual positives.
    sigmas : actual positives above the predicted, in standard deviations.
    p_value : how often chance takes this one value so far.
    p_value_corrected : how often, at most, chance takes any of the field's values so far
        (Bonferroni): an alarm below 0.01 is false in 1 of 100 looks at most.
    """

    name: str
    expected: float
    positives: float
    pcoc: float
    sigmas: float
    p_value: float
    p_value_corrected: float


@dataclass(frozen=True, slots=True)
class FieldErrors:
    """How far the values of a field are off, and how far chance alone would take them.

    field_rce, field_ece : see the functions of that name.
    field_rce_floor, field_ece_floor : their means if the probabilities were right.
    left_out : share of the samples in values without positives, which Field-RCE leaves out.
    values : how many have been predicted a positive, or had one.
    worst : None without such values.
    """

    field_rce: float
    field_rce_floor: float
    field_ece: float
    field_ece_floor: float
    left_out: float
    values: int
    worst: WorstValue | None

    @classmethod
    def of(cls, sums: FieldSums, seed: int = 0) -> Self:
        """The errors of a field; the seed draws the positives of the floor."""
        held = int(np.count_nonzero((sums.expected > 0.0) | (sums.positives > 0.0)))
        return cls(
            sums.rce,
            sums.rce_floor(seed),
            sums.ece,
            sums.ece_floor,
            sums.left_out,
            held,
            _worst(sums, held) if held else None,
        )


def _worst(sums: FieldSums, values: int) -> WorstValue:
    i = sums.worst_first[0]
    p_value = float(sums.p_values[i])
    return WorstValue(
        sums.names[i],
        float(sums.expected[i]),
        float(sums.positives[i]),
        ratio(sums.expected[i], sums.positives[i]),
        float(sums.sigmas[i]),
        p_value,
        min(1.0, values * p_value),
    )


def field_errors(
    names: Sequence[str],
    expected: ArrayLike,
    positives: ArrayLike,
    variance: ArrayLike,
    samples: ArrayLike | None = None,
    *,
    seed: int = 0,
) -> FieldErrors:
    """Field-RCE and Field-ECE with their floors, and the worst value, from sums by value.

    names, expected, positives, variance, samples : of `FieldSums`, (k,) each; without samples the
        number of rows is taken from the sums.
    seed : of the draws behind the floor of Field-RCE.

    Source: `field_rce`, `field_ece`; the floor of Field-ECE is De Moivre's mean deviation.

    >>> found = field_errors(["ios", "web"], [120.0, 80.0], [60.0, 82.0], [118.0, 79.0])
    >>> round(found.field_rce, 3), found.worst.name, round(found.worst.sigmas, 2)
    (0.541, 'ios', -5.52)
    """
    return FieldErrors.of(FieldSums.check(names, expected, positives, variance, samples), seed)
