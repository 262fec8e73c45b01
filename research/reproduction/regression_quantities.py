"""What papers 000 and 003 report of a synthetic regression, and where it has to lie.

A synthetic regression of papers 000 and 003, run as each of them did.
How the reported numbers of a synthetic regression vary with the evaluation set.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, owens_t

from calibrators.samples import Floats
from research.reproduction.experiment import BAND_DEVIATIONS, Check, Progress, banded, ranged
from research.reproduction.regressions import (
    CALIBRATED,
    PLAIN,
    SAME_ROWS,
    USED_BY,
    EvaluationRows,
    Regression,
)
from research.reproduction.training_rounds import Rounds

ACCURACY, CALIBRATED_ACCURACY = "Acc, plain loss, %", "Acc, calibrated loss, %"
GAP, GAP_ON_SAME_ROWS = (
    "Acc, calibrated - plain, points",
    "Acc, calibrated - plain, same rows, points",
)
MEAN, MEAN_CHANGE = "mean, plain loss", "mean, calibrated - plain"
DEVIATION, CALIBRATED_DEVIATION = "sd, plain loss", "sd, calibrated loss"
RATIO, RATIO_ON_SAME_ROWS = "sd, calibrated / plain", "sd, calibrated / plain, same rows"

_RUNS_OF_NOISE = 100
_SHAPE_DOUBT = 0.05
"""Relative error of `normal_error` where losses are not quite normal."""


@dataclass(frozen=True, slots=True)
class Band:
    """The distribution of a reported number.

    low, high : hold it on at least 99 % of evaluation sets, as drawn by
        `evaluation_sets.quantities_over_sets`: 3 standard deviations, further where tails are long.
    noise : its standard deviation between rounds of 100 runs on one evaluation set.
    form : how it is shown.
    """

    low: float
    high: float
    noise: float
    form: str = ".2f"

    @property
    def middle(self) -> float:
        """Between low and high."""
        return (self.low + self.high) / 2.0

    def ends(self, rounds: int, runs: int) -> tuple[float, float]:
        """The band of so many training runs: wider, the fewer they are."""
        drawn = self.noise * math.sqrt(_RUNS_OF_NOISE / (runs * rounds))
        reach = math.hypot((self.high - self.low) / 2.0, BAND_DEVIATIONS * drawn)
        return self.middle - reach, self.middle + reach


@dataclass(frozen=True, slots=True)
class Variant:
    """How one paper ran the experiment, and what it prints, for plain and for calibrated loss.

    paper, tables : its number, and where it prints.
    runs, rounds : of each pipeline in a round, and how many rounds.
    accuracies, errors : mean over rounds and its standard error, in per cent.
    means, deviations : of pipeline A's loss.
    """

    paper: str
    tables: str
    runs: int
    rounds: int
    accuracies: tuple[str, str]
    errors: tuple[str, str]
    means: tuple[str, str]
    deviations: tuple[str, str]

    @property
    def part(self) -> str:
        """The heading of its checks."""
        return f"{self.paper}, {self.tables}: {self.rounds} rounds of {self.runs} runs"

    @property
    def printed(self) -> dict[str, float]:
        """The printed number of each quantity, or what follows from the printed ones."""
        accuracy, calibrated_accuracy = map(float, self.accuracies)
        mean, calibrated_mean = map(float, self.means)
        deviation, calibrated_deviation = map(float, self.deviations)
        return {
            ACCURACY: accuracy,
            CALIBRATED_ACCURACY: calibrated_accuracy,
            GAP: calibrated_accuracy - accuracy,
            MEAN: mean,
            MEAN_CHANGE: calibrated_mean - mean,
            DEVIATION: deviation,
            CALIBRATED_DEVIATION: calibrated_deviation,
            RATIO: calibrated_deviation / deviation,
        }


def _accuracy(loss: str) -> Callable[[Rounds], float]:
    return lambda rounds: 100.0 * rounds.accuracy(loss)


def _gap(plain: str) -> Callable[[Rounds], float]:
    return lambda rounds: 100.0 * (rounds.accuracy(CALIBRATED) - rounds.accuracy(plain))


def _ratio(plain: str) -> Callable[[Rounds], float]:
    return lambda rounds: rounds.deviation(CALIBRATED) / rounds.deviation(plain)


QUANTITIES: Mapping[str, Callable[[Rounds], float]] = {
    ACCURACY: _accuracy(PLAIN),
    CALIBRATED_ACCURACY: _accuracy(CALIBRATED),
    GAP: _gap(PLAIN),
    MEAN: lambda rounds: rounds.mean(PLAIN),
    MEAN_CHANGE: lambda rounds: rounds.mean(CALIBRATED) - rounds.mean(PLAIN),
    DEVIATION: lambda rounds: rounds.deviation(PLAIN),
    CALIBRATED_DEVIATION: lambda rounds: rounds.deviation(CALIBRATED),
    RATIO: _ratio(PLAIN),
    GAP_ON_SAME_ROWS: _gap(SAME_ROWS),
    RATIO_ON_SAME_ROWS: _ratio(SAME_ROWS),
}


def variant_checks(variant: Variant, bands: Mapping[str, Band], rounds: Rounds) -> Iterator[Check]:
    """Each quantity beside the printed one, where there is one, and its band."""
    for what, band in bands.items():
        yield ranged(
            what,
            QUANTITIES[what](rounds),
            *band.ends(*rounds.shape),
            paper=variant.printed.get(what),
            part=variant.part,
            form=band.form,
        )
    for place, loss in enumerate((PLAIN, CALIBRATED)):
        yield _error_check(variant, place, loss, rounds)


def _error_check(variant: Variant, place: int, loss: str, rounds: Rounds) -> Check:
    """The standard error over what independent runs on one evaluation set give.

    Were the evaluation set redrawn for each round, it would be two times as large or more.
    """
    count, runs = rounds.shape
    printed_error = float(variant.errors[place]) / 100.0
    printed_accuracy = float(variant.accuracies[place]) / 100.0
    return banded(
        f"standard error of Acc, {loss} loss, / that of independent runs",
        rounds.accuracy_error(loss) / normal_error(rounds.accuracy(loss), runs, count),
        1.0,
        math.hypot(_SHAPE_DOUBT, 1.0 / math.sqrt(2.0 * (variant.rounds - 1))),
        paper=printed_error / normal_error(printed_accuracy, variant.runs, variant.rounds),
        part=variant.part,
        form=".2f",
        checked=(count, runs) == (variant.rounds, variant.runs),
    )


def normal_error(value: float, runs: int, rounds: int) -> float:
    """Standard error of a mean accuracy over rounds of independent runs on one evaluation set.

    For two normal distributions of equal width: two runs of A both beat one of B with probability
    value - 2 T(z, 1 / sqrt(3)), T being Owen's function and z the normal quantile of the value.
    nan where the value is 0 or 1.

    >>> round(100 * normal_error(0.9349, 100, 20), 2)
    0.37
    """
    if not 0.0 < value < 1.0:
        return float("nan")
    both = value - 2.0 * float(owens_t(float(ndtri(value)), 1.0 / math.sqrt(3.0)))
    shared = 2.0 * (runs - 1) * (both - value**2)
    return math.sqrt((value * (1.0 - value) + shared) / (runs**2 * rounds))


def trained_note(found: Sequence[Rounds]) -> str:
    """How many models were trained."""
    trained = sum(2 * rounds.shape[0] * rounds.shape[1] for rounds in found)
    return f"{trained:,} models trained, each on a draw of its own, scored on one evaluation set."


QUICK_SHAPE = (2, 50)
"""Rounds, and runs in a round."""


@dataclass(frozen=True, slots=True)
class RegressionExperiment:
    """Both papers' variants on one evaluation set, drawn from the seed.

    regression : the data and the models.
    variants : how the papers ran it.
    bands : where each quantity has to lie.
    """

    regression: Regression
    variants: Sequence[Variant]
    bands: Mapping[str, Band]

    def rounds(self, *, quick: bool, seed: int, progress: Progress) -> list[Rounds]:
        """The rounds of each variant."""
        rows = self.evaluation_rows(seed)
        shapes = [QUICK_SHAPE if quick else (v.rounds, v.runs) for v in self.variants]
        total = sum(rounds * runs for rounds, runs in shapes)
        before, found = 0.0, []
        for place, shape in enumerate(shapes, start=1):
            steps = _Steps(before, shape[1] / total, progress)
            found.append(Rounds.of(self.regression, rows, shape, (seed, place), steps))
            before = steps.done
        return found

    def evaluation_rows(self, seed: int) -> EvaluationRows:
        """The one evaluation set of all rounds."""
        return self.regression.evaluation_rows(np.random.default_rng([seed]))

    def checks(self, found: Sequence[Rounds]) -> Iterator[Check]:
        """Every quantity of every variant."""
        for variant, rounds in zip(self.variants, found, strict=True):
            yield from variant_checks(variant, self.bands, rounds)


@dataclass(slots=True)
class _Steps:
    done: float
    step: float
    progress: Progress

    def __call__(self) -> None:
        self.done += self.step
        self.progress(min(self.done, 1.0))


def quantities_over_sets(
    regression: Regression, sets: int, runs: int, seed: int
) -> Mapping[str, Floats]:
    """Each quantity on each of so many evaluation sets, (sets,), with one set of trained models.

    The bands of the experiments were measured so, over models trained several times.
    """
    rng = np.random.default_rng(seed)
    models = {name: regression.trained(rng, runs, used)[None] for name, used in USED_BY.items()}
    scored = [
        Rounds.scored(regression, regression.evaluation_rows(rng), models) for _ in range(sets)
    ]
    return {
        what: np.array([quantity(rounds) for rounds in scored])
        for what, quantity in QUANTITIES.items()
    }
