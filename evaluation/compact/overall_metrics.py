"""What is measured of a log as a whole, and of no slice of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.biased_loss import Loss
from evaluation.calibrated_loss import calibrated_losses
from evaluation.compact.bias_halves import BiasHalves
from evaluation.compact.compact_rows import CompactRows
from evaluation.reliability import ReliabilityDiagram, reliability_diagram
from evaluation.score_quantiles import ScoreQuantiles, score_quantiles

_ENOUGH_ROWS = 250_000
"""So many rows are enough for quantiles and shifts: cells of some 1 / 10,000 of an octave move no
digit that is shown."""
_BIAS_SHARE = 0.1
_UNDEFINED = (float("nan"), float("nan"))
_POSITIVES_PER_POINT, _FEWEST_POINTS, _MOST_POINTS = 25, 3, 12


@dataclass(frozen=True, slots=True, eq=False)
class OverallMetrics:
    """Numbers by the names they have in JSON, and curves."""

    numbers: Mapping[str, float]
    quantiles: ScoreQuantiles
    reliability: ReliabilityDiagram


def overall_metrics(rows: CompactRows, quantiles: int, seed: int) -> OverallMetrics:
    """Calibrated losses, quantiles and the reliability diagram of all rows."""
    few = rows.within(_ENOUGH_ROWS)
    p, y, w = few.scores, few.outcomes, few.weights
    points = int(few.positives.sum() / _POSITIVES_PER_POINT)
    points = int(np.clip(points, _FEWEST_POINTS, _MOST_POINTS))
    return OverallMetrics(
        _calibrated(few, seed),
        score_quantiles(p, y, quantiles, sample_weight=w),
        reliability_diagram(p, y, points, sample_weight=w),
    )


def _calibrated(rows: CompactRows, seed: int) -> dict[str, float]:
    """Both losses with and without the bias, on the same samples; the bias is of the others."""
    halves = BiasHalves.draw(rows, _BIAS_SHARE, np.random.default_rng(seed))
    log, plain_log = _pair(halves, "log") if halves.bias_has_both_classes else _UNDEFINED
    quadratic, plain_quadratic = _pair(halves, "quadratic")
    return {
        "calibrated_log_loss": log,
        "log_loss_beside_calibrated": plain_log,
        "calibrated_quadratic_loss": quadratic,
        "mse_beside_calibrated": plain_quadratic,
    }


def _pair(halves: BiasHalves, loss: Loss) -> tuple[float, float]:
    found = calibrated_losses(
        halves.probabilities,
        halves.outcomes,
        loss,
        bias_rows=halves.bias_rows,
        sample_weight=halves.weights,
    )
    return found.value, found.plain
