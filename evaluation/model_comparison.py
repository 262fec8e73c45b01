"""Two models on the same rows: their metrics, plain and calibrated, and how far they differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from calibrators.samples import Floats
from evaluation.bias_split import bias_split
from evaluation.block_draws import Progress, Resampled, centred, observed, resample
from evaluation.blocks import Blocks, effective_number
from evaluation.compared_model import LOWER_IS_BETTER, ComparedModel
from evaluation.difference import Difference, less
from evaluation.paired_log import PairedLog
from evaluation.significance import MOST_RANKED_DRAWS

A: Final = "A"
B: Final = "B"
LIFTED: Final = (
    "log_loss", "calibrated_log_loss", "mse", "calibrated_quadratic_loss", "auc", "cs_auc"
)  # fmt: skip
"""Metrics whose ratio means something: they have a zero, and are not near it."""

Contrast = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class ModelComparison:
    """What a comparison of two models found.

    Attributes
    ----------
    models : "A" and "B".
    differences : metric -> its value for A minus its value for B.
    lifts : metric -> by which share A improves on B, positive where A is better.
    effective : how many blocks of one size vary as these do.
    draws : of what sums decide, and of what takes the rows.
    """

    models: Mapping[str, ComparedModel]
    differences: Mapping[str, Difference]
    lifts: Mapping[str, Difference]
    effective: float
    draws: tuple[int, int]

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of both."""
        return {side: model.metrics for side, model in self.models.items()}

    @property
    def blocks(self) -> Blocks:
        """What was drawn."""
        return self.models[A].blocks

    def better(self, metric: str) -> str | None:
        """Which of them is better beyond chance, "A" or "B"; None where nobody can tell."""
        sign = self.differences[metric].sign
        return {0: None, -1: A, 1: B}[sign if LOWER_IS_BETTER[metric] else -sign]

    def leads(self, metric: str) -> str:
        """Which of them has the better value, by chance or not."""
        lower = self.differences[metric].value < 0.0
        return A if lower == LOWER_IS_BETTER[metric] else B


def compared_models(
    log: PairedLog, *, bias_share: float = 0.1, seed: int = 0
) -> dict[str, ComparedModel]:
    """Both models, with the bias of calibrated losses fitted on the same rows of the log."""
    bias_rows = bias_split(np.ones(len(log.events), bool), None, bias_share, seed)
    sides = ((A, log.events.scores, log.sums_a), (B, log.scores_b, log.sums_b))
    return {
        side: ComparedModel(log.events, scores, log.blocks, sums, bias_rows)
        for side, scores, sums in sides
    }


def compare_models(
    models: Mapping[str, ComparedModel],
    *,
    draws: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> ModelComparison:
    """Draw the blocks of the log, both models on the same draws, and see how differences move.

    Parameters
    ----------
    models : "A" and "B", on the same rows.
    draws : of what sums decide; what takes the rows gets 300 of them at most. 0 for no intervals.
    seed : of the draws.
    progress : called with (draws done, draws in all).

    References
    ----------
    See `paired_bootstrap`, and `calibrated_losses` for what calibrated losses are.
    """
    few = min(draws, MOST_RANKED_DRAWS)
    metrics = {side: model.metrics for side, model in models.items()}
    drawn: dict[tuple[str, str], Floats] = {}
    if draws:
        count = models[A].blocks.count
        sums = _named({side: model.sum_metrics() for side, model in models.items()})
        drawn |= resample(sums, count, draws=draws, seed=seed)
        ranked = _named({side: model.ranked_metrics() for side, model in models.items()})
        rough = resample(ranked, count, draws=few, seed=seed, progress=progress)
        for (side, name), metric in ranked.items():
            value, held = metrics[side][name], rough[side, name]
            # Cells and buckets move every draw alike.
            exact = held + (value - observed(metric, count))
            drawn[side, name] = centred(held, value) if name == "gc_3" else exact
    effective = effective_number(models[A].sums.weights)
    names = [name for name in LOWER_IS_BETTER if name in metrics[A]]
    found = _Differences(metrics, drawn, effective)
    return ModelComparison(
        models,
        {name: found.plain(name) for name in names},
        {name: found.lift(name) for name in LIFTED if name in metrics[A]},
        effective,
        (draws, few),
    )


def _named(sides: Mapping[str, Mapping[str, Resampled]]) -> dict[tuple[str, str], Resampled]:
    return {
        (side, name): metric for side, metrics in sides.items() for name, metric in metrics.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Differences:
    metrics: Mapping[str, Mapping[str, float]]
    drawn: Mapping[tuple[str, str], Floats]
    effective: float

    def plain(self, name: str) -> Difference:
        """A less B."""
        return self._of(name, less)

    def lift(self, name: str) -> Difference:
        """By which share A is better than B."""
        sign = -1.0 if LOWER_IS_BETTER[name] else 1.0
        return self._of(name, lambda a, b: sign * less(a, b) / b)

    def _of(self, name: str, contrast: Contrast) -> Difference:
        nothing = np.empty(0)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = contrast(*(np.array(self.metrics[side][name]) for side in (A, B)))
            drawn = contrast(*(self.drawn.get((side, name), nothing) for side in (A, B)))
        return Difference.of(float(value), drawn, self.effective)
