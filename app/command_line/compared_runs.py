"""What several training runs of two models say about both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

import numpy as np

from app.command_line.tables import Rows
from evaluation import MetricAccuracy, metric_accuracy
from evaluation.model_comparison import A, B

PLAIN: Final = "log_loss_beside_calibrated"
CALIBRATED: Final = "calibrated_log_loss"
JUDGED: Final = (PLAIN, CALIBRATED, "mse_beside_calibrated", "calibrated_quadratic_loss")
"""The metrics whose accuracy is told, each plain one before its calibrated form."""

_OTHER: Final = {A: B, B: A}


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRuns:
    """Training runs of two models, all judged on the same impressions.

    Attributes
    ----------
    names : where the runs of A and of B came from.
    runs : side -> name of the run -> its metrics.
    seed : of the bias rows and of a sample of rows.
    bias_share : share of the rows that the bias was fitted on.
    warnings : what the reader must know about the logs.
    """

    names: Mapping[str, str]
    runs: Mapping[str, Rows]
    seed: int
    bias_share: float
    warnings: Sequence[str] = ()

    def values(self, side: str, metric: str) -> list[float]:
        """The metric of every run of a side."""
        return [metrics[metric] for metrics in self.runs[side].values()]

    def means(self) -> dict[str, dict[str, float]]:
        """The mean of every metric over the runs."""
        return {
            side: {name: float(np.mean(self.values(side, name))) for name in self._metrics(side)}
            for side in self.runs
        }

    def spreads(self) -> dict[str, dict[str, float]]:
        """The standard deviation of every metric over the runs; nan of a single one."""
        return {
            side: {name: _deviation(self.values(side, name)) for name in self._metrics(side)}
            for side in self.runs
        }

    @property
    def better(self) -> str | None:
        """The model that the plain log loss puts first in most pairs of runs; None in half."""
        share = self.share_of_a(PLAIN).value
        return None if share == 0.5 or isnan(share) else A if share > 0.5 else B

    def share_of_a(self, metric: str) -> MetricAccuracy:
        """Share of the pairs of runs in which A has the lower metric; nan where undefined."""
        a, b = (self.values(side, metric) for side in (A, B))
        if np.isnan([*a, *b]).any():
            return MetricAccuracy(*[float("nan")] * 4)
        return metric_accuracy(a, b)

    def accuracy(self, metric: str) -> MetricAccuracy:
        """How often the metric of single runs puts the better model first."""
        found = self.share_of_a(metric)
        if self.better != B:
            return found
        return MetricAccuracy(
            1.0 - found.value, found.standard_error, 1.0 - found.upper, 1.0 - found.lower
        )

    def _metrics(self, side: str) -> list[str]:
        return [*next(iter(self.runs[side].values()))]

    @property
    def verdict(self) -> str:
        """Who is better, and whether the calibrated metric tells it with fewer runs."""
        better = self.better
        if better is None:
            return "A and B cannot be told apart: neither has the lower log loss in most pairs."
        plain, calibrated = self.accuracy(PLAIN), self.accuracy(CALIBRATED)
        sure = plain.lower > 0.5
        said = (
            f"{better} is better{'' if sure else ', as far as these runs tell'}: a run of it has"
            f" the lower log loss in {_share(plain)} of all pairs."
        )
        return f"{said} {self._calibrated(calibrated, plain)}"

    def _calibrated(self, calibrated: MetricAccuracy, plain: MetricAccuracy) -> str:
        if isnan(calibrated.value):
            return "The calibrated log loss is undefined: give a larger --bias-share."
        if calibrated.value < 0.5:
            return (
                "The calibrated log loss disagrees: it puts"
                f" {_OTHER[str(self.better)]} first, in {1.0 - calibrated.value:.1%} of the pairs."
                " The plain one decides here; look at the PCOC of both."
            )
        more = "more often" if calibrated.value > plain.value else "no more often"
        return f"The calibrated log loss says so {more}, in {_share(calibrated)} of them."


def _share(accuracy: MetricAccuracy) -> str:
    return f"{accuracy.value:.1%} ({accuracy.lower:.1%} to {accuracy.upper:.1%})"


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
