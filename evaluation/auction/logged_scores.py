"""The offline metrics of a model's scores on what the log has shown."""

import numpy as np

from calibrators.samples import Floats
from evaluation.auc import auc_of
from evaluation.auction.click_curve import ClickCurve
from evaluation.auction.search_log import SearchLog
from evaluation.log_loss import log_loss_of
from evaluation.pcoc import pcoc_of
from evaluation.predictions import Predictions
from evaluation.rig import rig_of

OFFLINE_METRICS = ("n", "positives", "pcoc", "log_loss", "auc", "mainline_auc", "rig")


def logged_predictions(log: SearchLog, scores: Floats, curve: ClickCurve) -> Predictions:
    """Impressions of the log, (shown,), with arranged scores times the click curve.

    A position-unbiased score promises clicks at the first position; what it promises where the ad
    stood is that times the factor of the position, at most 1.
    """
    shown = log.shown
    factors = curve.factors[log.positions[shown] - 1]
    # Without a click in the whole log there is no curve, and the scores stand as they are.
    promised = np.minimum(scores[shown] * np.nan_to_num(factors, nan=1.0), 1.0)
    return Predictions.check(promised, log.clicks[shown].astype(np.float64), None)


def logged_scores(log: SearchLog, scores: Floats, curve: ClickCurve) -> dict[str, float]:
    """What one would judge a model by before it is shown to anyone: on the logged impressions.

    Impressions and clicks (`n`, `positives`), PCOC, log loss, AUC (of all and of the mainline) and
    RIG of arranged scores times the click curve.
    """
    all_shown = logged_predictions(log, scores, curve)
    above = log.positions[log.shown] <= log.layout.mainline
    mainline = Predictions(
        all_shown.probabilities[above], all_shown.outcomes[above], all_shown.weights[above]
    )
    values = (
        all_shown.weights.sum(),
        all_shown.positives.sum(),
        pcoc_of(all_shown),
        log_loss_of(all_shown),
        auc_of(all_shown),
        auc_of(mainline),
        rig_of(all_shown),
    )
    return {name: float(value) for name, value in zip(OFFLINE_METRICS, values, strict=True)}
