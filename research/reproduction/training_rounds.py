"""Rounds of training runs of two pipelines, scored by each loss on one evaluation set."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats
from evaluation.comparison.metric_accuracy import metric_accuracy
from research.reproduction.regressions import LOSSES, USED_BY, EvaluationRows, Regression


@dataclass(frozen=True, eq=False)
class Rounds:
    """Losses and coefficients of all training runs.

    losses : of "A" and "B", each (rounds, runs, 3), the last axis in the order of `LOSSES`.
    coefficients : of "A" and "B", each (rounds, runs, used + 1).
    """

    losses: dict[str, Floats]
    coefficients: dict[str, Floats]

    @classmethod
    def of(
        cls,
        regression: Regression,
        rows: EvaluationRows,
        shape: tuple[int, int],
        seed: tuple[int, ...],
        advance: Callable[[], None],
    ) -> Self:
        """Train (rounds, runs) models of each pipeline, each run on a draw of its own.

        `advance` is called after each round.
        """
        rounds, runs = shape
        coefficients: dict[str, list[Floats]] = {name: [] for name in USED_BY}
        for number in range(rounds):
            rng = np.random.default_rng([*seed, number])
            for name, used in USED_BY.items():
                coefficients[name].append(regression.trained(rng, runs, used))
            advance()
        return cls.scored(regression, rows, {n: np.stack(c) for n, c in coefficients.items()})

    @classmethod
    def scored(
        cls, regression: Regression, rows: EvaluationRows, coefficients: dict[str, Floats]
    ) -> Self:
        """The losses of models that are trained already."""
        losses = {
            name: regression.losses(models.reshape(-1, models.shape[-1]), rows).reshape(
                *models.shape[:2], len(LOSSES)
            )
            for name, models in coefficients.items()
        }
        return cls(losses, coefficients)

    @property
    def shape(self) -> tuple[int, int]:
        """Rounds, and runs of each pipeline in a round."""
        rounds, runs, _ = self.losses["A"].shape
        return rounds, runs

    def accuracies(self, loss: str) -> Floats:
        """Metric accuracy of each round, shape (rounds,)."""
        column = LOSSES.index(loss)
        pairs = zip(self.losses["A"][..., column], self.losses["B"][..., column], strict=True)
        return np.array([metric_accuracy(better, worse).value for better, worse in pairs])

    def accuracy(self, loss: str) -> float:
        """Mean over rounds."""
        return float(self.accuracies(loss).mean())

    def accuracy_error(self, loss: str) -> float:
        """Standard error of the mean over rounds; nan for one round."""
        values = self.accuracies(loss)
        if len(values) < 2:
            return float("nan")
        return float(values.std(ddof=1) / np.sqrt(len(values)))

    def mean(self, loss: str) -> float:
        """Mean loss of pipeline A."""
        return float(self._of_better(loss).mean())

    def deviation(self, loss: str) -> float:
        """Standard deviation of A's loss inside a round, averaged over rounds."""
        return float(self._of_better(loss).std(axis=1, ddof=1).mean())

    def _of_better(self, loss: str) -> Floats:
        return self.losses["A"][..., LOSSES.index(loss)]
