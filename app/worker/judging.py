"""How well did the probabilities of closed hours come true? Numbers of the report."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrators import BinsTable
from evaluation.cal_n import cal_n_of
from evaluation.gc_n import CampaignRuns
from evaluation.predictions import Predictions
from evaluation.scorecard import campaign_scores, pooled_scores

Row = Mapping[str, float | None]


def quality(table: BinsTable) -> Row:
    """Scorecard of binned probabilities, with Cal-3 and Cal-5 of all campaigns together.

    A cell counts as its mean probability, and what pools the campaigns is taken from their pooled
    bins. What is undefined is None, so that no gauge shows it.
    """
    pooled = Predictions.check(*table.total().samples())
    row = {
        **pooled_scores(pooled),
        **{f"cal_{n}": cal_n_of(pooled, n, "merge") for n in (3, 5)},
        **campaign_scores(_by_campaign(table)),
    }
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _by_campaign(table: BinsTable) -> CampaignRuns:
    *columns, rows = table.samples()
    return CampaignRuns.of_rows(Predictions.check(*columns), table.campaigns, rows)


def top_campaigns(raw: BinsTable, calibrated: BinsTable, count: int) -> list[dict[str, Any]]:
    """The campaigns with the most samples, with their PCOC before and after calibration."""
    samples, positives = raw.totals()
    # Ties are broken by name, so that the labels of a gauge do not flicker.
    order = np.lexsort((np.arange(len(raw)), -samples))[:count]
    return [
        {
            "campaign": raw.campaigns[row],
            "n": float(samples[row]),
            "positives": float(positives[row]),
            "pcoc_raw": _pcoc(raw, raw.campaigns[row]),
            "pcoc_calibrated": _pcoc(calibrated, raw.campaigns[row]),
        }
        for row in order.tolist()
    ]


def _pcoc(table: BinsTable, campaign: str) -> float | None:
    bins = table.bins(campaign)
    return bins.total_score / bins.total_positives if bins.total_positives > 0 else None
