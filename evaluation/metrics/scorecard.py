"""The scorecard: one row of the table that commands and reports print."""

from numpy.typing import ArrayLike

from evaluation.metrics.auc import auc_of
from evaluation.metrics.calibration import pcoc_of
from evaluation.metrics.gc_n import CampaignRuns
from evaluation.metrics.loss import log_loss_of
from evaluation.metrics.predictions import Campaigns, Predictions

GC_N = (3, 4, 5)
"""The bins of each GC-N of the scorecard."""


def scorecard(
    p: ArrayLike, y: ArrayLike, campaigns: Campaigns, *, sample_weight: ArrayLike | None = None
) -> dict[str, float]:
    """n, positives, pcoc, log_loss, auc, gc_3, gc_4 and gc_5 of one set of predictions.

    `n` and `positives` are weights' sums; log loss, PCOC and AUC pool the campaigns; an undefined
    number is nan. GC-N has its defaults: how many samples that leaves out,
    `grouped_cal_n(...).share_left_out` says. Arguments and errors: `evaluation.metrics`.

    >>> row = scorecard([0.2, 0.8], [0.4, 0.6], ["a", "a"], sample_weight=[10_000, 10_000])
    >>> {name: round(value, 3) for name, value in row.items()}
    {'n': 20000.0, 'positives': 10000.0, 'pcoc': 1.0, 'log_loss': 0.778, 'auc': 0.6, \
'gc_3': 0.609, 'gc_4': 0.745, 'gc_5': 0.667}
    """
    return scorecard_of(Predictions.check(p, y, sample_weight), campaigns)


def scorecard_of(predictions: Predictions, campaigns: Campaigns) -> dict[str, float]:
    """`scorecard` of checked predictions."""
    # First, so that the samples by campaign are gone when all of them are sorted for the AUC.
    runs = CampaignRuns.of(predictions, campaigns)
    by_campaign = {f"gc_{n}": runs.cal_n(n).mean for n in GC_N}
    del runs
    return {**pooled_scores(predictions), **by_campaign}


def pooled_scores(predictions: Predictions) -> dict[str, float]:
    """The scorecard's numbers that pool all campaigns."""
    return {
        "n": float(predictions.weights.sum()),
        "positives": float(predictions.positives.sum()),
        "pcoc": pcoc_of(predictions),
        "log_loss": log_loss_of(predictions),
        "auc": auc_of(predictions),
    }
