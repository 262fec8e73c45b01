"""Paper 001: every printed column of Tables 2, 3 and 4, and the totals of Table 1."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from typing import Final

import numpy as np

from calibrators.samples import Floats
from evaluation.auc import auc
from evaluation.mae import mae
from evaluation.nmse import nmse
from evaluation.partial_auc import partial_auc
from evaluation.pcoc import pcoc
from evaluation.prediction_error import prediction_error
from evaluation.reproduction.auc_tables import COLUMNS, TABLES, PrintedTable
from evaluation.reproduction.check import Check, Erratum
from evaluation.reproduction.check_kinds import exact, printed
from evaluation.reproduction.exact_table import ExactTable
from evaluation.reproduction.experiment import Experiment, Progress, Reproduction
from evaluation.reproduction.survey_counts import survey_checks
from evaluation.rig import rig


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Recomputes every cell; the size and the seed are of no effect."""
    del quick, seed
    checks = [*survey_checks(), *(check for table in TABLES for check in Recount(table).checks())]
    progress(1.0)
    return Reproduction(EXPERIMENT.name, EXPERIMENT.title, "001, Tables 1 to 4", checks, NOTES)


@dataclass(frozen=True)
class Recount:
    """A printed table computed again by our metrics, with exact fractions as the judge."""

    table: PrintedTable

    @cached_property
    def clicks(self) -> Floats:
        """The printed clicks, shape (rows,)."""
        return np.array([row.clicks for row in self.table.rows], np.float64)

    @cached_property
    def weights(self) -> Floats:
        """Clicks and no-clicks, shape (rows,)."""
        return self.clicks + np.array([row.others for row in self.table.rows], np.float64)

    @cached_property
    def scores(self) -> Floats:
        """The printed scores, shape (rows,)."""
        return np.array([float(row.score) for row in self.table.rows])

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """The printed columns as we compute them, each (rows,)."""
        found = np.cumsum(self.clicks) / self.clicks.sum()
        passed = np.cumsum(self.weights - self.clicks) / (self.weights - self.clicks).sum()
        rates = self.clicks / self.weights
        ratios = [pcoc([p], [rate]) for p, rate in zip(self.scores, rates, strict=True)]
        columns = (found, passed, self._areas(passed), rates, np.array(ratios))
        return dict(zip(COLUMNS, columns, strict=True))

    def metric(self, metric: Callable[..., float]) -> float:
        """A metric of the table as samples: one of each score, with click rate and weight."""
        return metric(self.scores, self.clicks / self.weights, sample_weight=self.weights)

    def checks(self) -> Iterator[Check]:
        """All columns of all rows, the last line, then what is not printed."""
        true = ExactTable(self.table)
        for place, row in enumerate(self.table.rows):
            for name, text in zip(COLUMNS, row.columns, strict=True):
                what, value = f"row {place + 1}, {name}", true.columns[name][place]
                cell = float(self.columns[name][place])
                yield self._printed(what, text, cell, value, self._hint(name))
        yield from self._last_line(true)
        for name, metric in METRICS.items():
            ours = self.metric(metric)
            yield exact(name, ours, true.metrics[name], part=self.table.name, form=".6g")

    def _last_line(self, true: ExactTable) -> Iterator[Check]:
        clicks, weights = self.clicks.sum(), self.weights.sum()
        table = self.table
        yield self._printed("clicks", table.clicks, clicks, Fraction(true.clicks))
        hint = "; the FPR column is of that total"
        yield self._printed(
            "no-clicks", table.others, weights - clicks, Fraction(true.others), hint
        )
        yield self._printed("AUC", table.auc, self.metric(auc), true.auc)
        if table.ctr is not None:
            rate = Fraction(true.clicks, true.clicks + true.others)
            yield self._printed("CTR", table.ctr, clicks / weights, rate)

    def _printed(self, what: str, text: str, ours: float, true: Fraction, hint: str = "") -> Check:
        reason = f"The printed clicks and no-clicks give {float(true):,.10g}{hint}."
        erratum = Erratum.exact(float(true), reason)
        return printed(what, text, float(ours), part=self.table.name, erratum=erratum)

    def _hint(self, column: str) -> str:
        """What else speaks against a printed trapezoid."""
        if column != "trapezoid":
            return ""
        place = COLUMNS.index(column)
        total = sum(Decimal(row.columns[place]) for row in self.table.rows)
        return f"; the printed trapezoids add up to {total}, the printed AUC is {self.table.auc}"

    def _areas(self, passed: Floats) -> Floats:
        """The trapezoid below each stretch of the ROC curve."""
        ends = [0.0, *passed.tolist()]
        heights = [
            self.metric(partial(partial_auc, low=low, high=high)) for low, high in pairwise(ends)
        ]
        areas: Floats = np.array(heights) * np.diff(ends)
        return areas


METRICS: Final[dict[str, Callable[..., float]]] = {
    "RIG": rig,
    "NMSE": nmse,
    "MAE": mae,
    "PE": prediction_error,
}
NOTES = (
    "Every cell is computed from the printed clicks and no-clicks, by our metrics and in exact"
    " fractions; where both say the same and the printed digit another thing, the paper errs.",
    "The first half of Table 4 is that of Table 2. Its two halves have one AUC because all"
    " no-clicks of the second are ten times those of the first.",
    'Ratios are printed with one digit: "10.0" may be 9.999, "0.0" is 0.002.',
    "RIG, NMSE, MAE and PE are not printed. RIG is negative for the second halves of Tables 3 and"
    " 4, so it flags what AUC misses; it is misled by Table 2 as AUC is. MAE is not a proper score:"
    " predicting 0 for everything halves it in Table 2.",
    "Table 1 is read from a text whose columns may have shifted: two parts of online advertising"
    " do not add up there.",
)
EXPERIMENT = Experiment(
    "auc_anomalies",
    "AUC anomalies",
    "001: every column of Tables 2 to 4 from the printed counts, totals of Table 1",
    1.0,
    run,
)
