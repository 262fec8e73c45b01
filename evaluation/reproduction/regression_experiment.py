"""A synthetic regression of papers 000 and 003, run as each of them did."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.reproduction.check import Check
from evaluation.reproduction.experiment import Progress
from evaluation.reproduction.model_losses import EvaluationRows
from evaluation.reproduction.regression_quantities import Band, Variant, variant_checks
from evaluation.reproduction.synthetic_regression import Regression
from evaluation.reproduction.training_rounds import Rounds

QUICK_SHAPE = (2, 50)
"""Rounds, and runs in a round."""


@dataclass(frozen=True, slots=True)
class RegressionExperiment:
    """Both papers' variants on one evaluation set, drawn from the seed.

    Attributes
    ----------
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
