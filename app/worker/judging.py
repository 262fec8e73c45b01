"""How well did the probabilities of closed hours come true? Numbers of the report."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from calibrators import Bins, BinsTable
from evaluation.cal_n import cal_n_of
from evaluation.gc_n import CampaignErrors, CampaignRuns
from evaluation.predictions import Predictions
from evaluation.scorecard import GC_N, pooled_scores

Row = Mapping[str, float | None]


class Judgement:
    """Scorecard of binned probabilities, with Cal-3 and Cal-5 of all campaigns together.

    A cell counts as its mean probability, and what pools the campaigns is taken from their pooled
    bins. Takes in tables of which none has a campaign of another's, so that only one of them needs
    to be in memory at a time.
    """

    def __init__(self) -> None:
        self._totals: list[Bins] = []
        self._errors: dict[int, list[CampaignErrors]] = {n: [] for n in GC_N}

    def add(self, table: BinsTable) -> None:
        """Take in a table."""
        self._totals.append(table.total())
        *columns, rows = table.samples()
        runs = CampaignRuns.of_rows(Predictions.check(*columns), table.campaigns, rows)
        for n, errors in self._errors.items():
            errors.append(runs.cal_n(n))

    def row(self) -> Row:
        """The numbers; what is undefined is None, so that no gauge shows it."""
        if not self._totals:
            self.add(BinsTable.empty())
        pooled = Predictions.check(*Bins.merge(self._totals).samples())
        row = {
            **pooled_scores(pooled),
            **{f"cal_{n}": cal_n_of(pooled, n, "merge") for n in (3, 5)},
            **{f"gc_{n}": CampaignErrors.joined(parts).mean for n, parts in self._errors.items()},
        }
        return {name: value if math.isfinite(value) else None for name, value in row.items()}


def quality(table: BinsTable) -> Row:
    """The judgement of one table."""
    return judged([table])


def judged(tables: Iterable[BinsTable]) -> Row:
    """The judgement of tables, each asked for when the one before is done with."""
    judgement = Judgement()
    for table in tables:
        judgement.add(table)
    return judgement.row()


def top_campaigns(raw: BinsTable, calibrated: BinsTable, count: int) -> list[dict[str, Any]]:
    """The campaigns with the most samples, with their PCOC before and after calibration."""
    top = TopCampaigns(count)
    top.add(raw)
    top.add_calibrated(calibrated)
    return top.entries


class TopCampaigns:
    """`top_campaigns` of tables that come one after the other, all raw ones first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.entries: list[dict[str, Any]] = []

    def add(self, raw: BinsTable) -> None:
        """Take in a table of scores; none has a campaign of another's."""
        samples, positives = raw.totals()
        order = np.argsort(-samples, kind="stable")[: self._count]
        found = [
            {
                "campaign": raw.campaigns[row],
                "n": float(samples[row]),
                "positives": float(positives[row]),
                "pcoc_raw": _pcoc(raw.bins(raw.campaigns[row])),
                "pcoc_calibrated": None,
            }
            for row in order.tolist()
        ]
        # Ties are broken by name, so that the labels of a gauge do not flicker.
        ranked = sorted((*self.entries, *found), key=lambda one: (-one["n"], one["campaign"]))
        self.entries = ranked[: self._count]

    def add_calibrated(self, table: BinsTable) -> None:
        """Take in a table of probabilities; none has a campaign of another's."""
        for entry in self.entries:
            bins = table.bins(entry["campaign"])
            if len(bins.cells):
                entry["pcoc_calibrated"] = _pcoc(bins)


def _pcoc(bins: Bins) -> float | None:
    return bins.total_score / bins.total_positives if bins.total_positives > 0 else None
