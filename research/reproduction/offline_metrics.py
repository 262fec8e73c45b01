"""Paper 001: every printed column of Tables 2, 3 and 4, and the totals of Table 1.

The columns are computed by our metrics and, to decide between paper and us, in exact fractions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, pairwise
from math import log
from typing import Final

import numpy as np

from calibrators.samples import Floats
from evaluation.metrics.auc import auc, partial_auc
from evaluation.metrics.calibration import mae, nmse, pcoc, prediction_error, rig
from research.reproduction.experiment import (
    Check,
    Erratum,
    Experiment,
    Progress,
    Reproduction,
    arithmetic,
    exact,
    printed,
)

COLUMNS = ("TPR", "FPR", "trapezoid", "actual CTR", "avg pClick / CTR")
_OF_METRICS = ("trapezoid", "avg pClick / CTR", "AUC")
"""What is printed and computed by the product; the rest is counting."""


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """One score: its clicks and no-clicks, and the five columns computed from them."""

    score: str
    clicks: int
    others: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """One half of a table.

    name : which half of which.
    rows : of descending score; columns in the order of `COLUMNS`.
    clicks, others, auc : the last line.
    ctr : the total CTR, where printed.
    """

    name: str
    rows: Sequence[PrintedRow]
    clicks: str
    others: str
    auc: str
    ctr: str | None = None


def _row(
    score: str, clicks: int, others: int, ctr: str, tpr: str, fpr: str, area: str, ratio: str
) -> PrintedRow:
    """A row in the order in which the paper prints it."""
    return PrintedRow(score, clicks, others, (tpr, fpr, area, ctr, ratio))


_FITTED = (
    _row("0.030000", 300, 9_700, "0.030000", "0.2500", "0.0086", "0.0011", "1.0"),
    _row("0.020000", 200, 9_800, "0.020000", "0.4167", "0.0173", "0.0029", "1.0"),
    _row("0.010000", 100, 9_900, "0.010000", "0.5000", "0.0260", "0.0040", "1.0"),
    _row("0.005000", 500, 99_500, "0.005000", "0.9167", "0.1142", "0.0624", "1.0"),
    _row("0.000100", 100, 999_900, "0.000100", "1.0000", "1.0000", "0.8499", "1.0"),
)
_TOP_OF_TABLE_3 = (
    _row("0.030000", 3_000, 97_000, "0.030000", "0.4545", "0.0093", "0.0021", "1.0"),
    _row("0.020000", 2_000, 98_000, "0.020000", "0.7576", "0.0188", "0.0057", "1.0"),
    _row("0.010000", 1_000, 99_000, "0.010000", "0.9091", "0.0283", "0.0079", "1.0"),
)
TABLES = (
    PrintedTable("Table 2, first", _FITTED, "1,200", "1,128,800", "0.9193"),
    PrintedTable(
        "Table 2, second",
        (
            _row("0.030000", 300, 9_700, "0.030000", "0.2500", "0.0010", "0.0001", "1.0"),
            _row("0.020000", 200, 9_800, "0.020000", "0.4167", "0.0019", "0.0003", "1.0"),
            _row("0.010000", 100, 9_900, "0.010000", "0.5000", "0.0029", "0.0004", "1.0"),
            _row("0.005000", 500, 99_500, "0.005000", "0.9167", "0.0127", "0.0070", "1.0"),
            _row("0.000100", 100, 9_999_000, "0.000010", "1.0000", "1.0000", "0.9461", "10.0"),
        ),
        "1,200",
        "10,127,900",
        "0.9540",
    ),
    PrintedTable(
        "Table 3, first",
        (
            *_TOP_OF_TABLE_3,
            _row("0.005000", 500, 99_500, "0.005000", "0.9848", "0.0379", "0.0091", "1.0"),
            _row("0.000010", 100, 9_999_900, "0.000010", "1.0000", "1.0000", "0.9548", "1.0"),
        ),
        "6,600",
        "10,392,500",
        "0.9797",
        "0.000635",
    ),
    PrintedTable(
        "Table 3, second",
        (
            *_TOP_OF_TABLE_3,
            _row("0.005000", 100, 9_999_900, "0.000010", "0.9242", "0.9904", "0.8820", "500.0"),
            _row("0.000010", 500, 99_500, "0.005000", "1.0000", "1.0000", "0.0092", "0.0"),
        ),
        "6,600",
        "10,392,500",
        "0.9069",
        "0.000635",
    ),
    PrintedTable("Table 4, first", _FITTED, "1,200", "1,128,800", "0.9193"),
    PrintedTable(
        "Table 4, second",
        (
            _row("0.030000", 300, 97_000, "0.003083", "0.2500", "0.0086", "0.0011", "9.7"),
            _row("0.020000", 200, 98_000, "0.002037", "0.4167", "0.0173", "0.0029", "9.8"),
            _row("0.010000", 100, 99_000, "0.001009", "0.5000", "0.0260", "0.0040", "9.9"),
            _row("0.005000", 500, 995_000, "0.000502", "0.9167", "0.1142", "0.0624", "10.0"),
            _row("0.000100", 100, 9_999_000, "0.000010", "1.0000", "1.0000", "0.8499", "10.0"),
        ),
        "1,200",
        "11,288,000",
        "0.9193",
    ),
)


Fractions = list[Fraction]


@dataclass(frozen=True)
class ExactTable:
    """What follows from the printed scores, clicks and no-clicks of a table."""

    table: PrintedTable

    @property
    def clicks(self) -> int:
        """All clicks."""
        return sum(row.clicks for row in self.table.rows)

    @property
    def others(self) -> int:
        """All no-clicks."""
        return sum(row.others for row in self.table.rows)

    @cached_property
    def columns(self) -> dict[str, Fractions]:
        """The printed columns."""
        rows = self.table.rows
        found = [Fraction(n, self.clicks) for n in accumulate(row.clicks for row in rows)]
        passed = [Fraction(n, self.others) for n in accumulate(row.others for row in rows)]
        rates = [Fraction(row.clicks, row.clicks + row.others) for row in rows]
        ratios = [Fraction(row.score) / rate for row, rate in zip(rows, rates, strict=True)]
        columns = (found, passed, _trapezoids(found, passed), rates, ratios)
        return dict(zip(COLUMNS, columns, strict=True))

    @property
    def auc(self) -> Fraction:
        """Sum of the trapezoids."""
        return sum(self.columns["trapezoid"], Fraction(0))

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metrics that the paper defines and does not print here."""
        rows = [(Fraction(row.score), row.clicks, row.others) for row in self.table.rows]
        n = self.clicks + self.others
        rate = Fraction(self.clicks, n)
        squares = sum(c * (1 - p) ** 2 + o * p**2 for p, c, o in rows) / n
        absolute = sum(c * (1 - p) + o * p for p, c, o in rows) / n
        predicted = sum(p * (c + o) for p, c, o in rows) / n
        loss = -sum(c * log(p) + o * log(1 - p) for p, c, o in rows) / n
        entropy = -(rate * log(rate) + (1 - rate) * log(1 - rate))
        return {
            "RIG": 1.0 - loss / entropy,
            "NMSE": float(squares / (rate * (1 - rate))),
            "MAE": float(absolute),
            "PE": float(predicted / rate - 1),
        }


def _trapezoids(found: Fractions, passed: Fractions) -> Fractions:
    corners = list(zip([Fraction(0), *passed], [Fraction(0), *found], strict=True))
    return [(right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(corners)]


Counts = tuple[int, ...]
KINDS = ("probability", "log likelihood", "PE", "NDCG", "IR", "misc", "online")
AREAS: Mapping[str, Counts] = {
    "recommendation": (1, 1, 2, 3, 3, 1, 0),
    "search": (1, 2, 0, 10, 16, 4, 1),
    "online advertising": (6, 1, 2, 0, 1, 6, 2),
    "CTR estimation": (0, 3, 1, 2, 0, 0, 1),
}
AREA_TOTALS = {
    "recommendation": "11",
    "search": "34",
    "online advertising": "18",
    "CTR estimation": "7",
}
PARTS_OF: Mapping[str, Mapping[str, Counts]] = {
    "search": {
        "ranking": (1, 1, 0, 8, 7, 1, 1),
        "personalized search": (0, 0, 0, 1, 4, 0, 0),
        "social search ranking": (0, 0, 0, 0, 0, 1, 0),
        "result clustering": (0, 0, 0, 0, 4, 1, 0),
        "query classification": (0, 0, 0, 0, 1, 1, 0),
        "topic assignment": (0, 1, 0, 0, 0, 0, 0),
        "distributed search": (0, 0, 0, 1, 0, 0, 0),
    },
    "online advertising": {
        "pricing/bid estimation": (1, 0, 1, 0, 0, 1, 1),
        "ad auction": (0, 0, 0, 0, 0, 2, 0),
        "bid agents": (0, 0, 1, 0, 0, 0, 1),
        "targeting": (3, 0, 0, 0, 0, 3, 0),
        "commerce": (2, 1, 0, 1, 2, 0, 0),
    },
}
TOTALS = ("8", "7", "5", "15", "20", "11", "4")
TOTAL = "70"


def survey_checks() -> Iterator[Check]:
    """Totals of rows and columns, and whether an area is the sum of its parts."""
    for area, text in AREA_TOTALS.items():
        yield printed(f"total of {area}", text, sum(AREAS[area]), part=PART)
    for place, (kind, text) in enumerate(zip(KINDS, TOTALS, strict=True)):
        yield printed(f"total of {kind}", text, _column(AREAS, place), part=PART)
    yield printed("total", TOTAL, sum(map(sum, AREAS.values())), part=PART)
    for area, parts in PARTS_OF.items():
        for place, kind in enumerate(KINDS):
            yield _sum_of_parts(area, parts, place, kind)


def _sum_of_parts(area: str, parts: Mapping[str, Counts], place: int, kind: str) -> Check:
    others = {name: counts for name, counts in AREAS.items() if name != area}
    by_total = int(TOTALS[place]) - _column(others, place)
    reason = f"The column's total less the other areas leaves {by_total}, as the area's row has it."
    return printed(
        f"{kind} of {area}, sum of its parts",
        str(_column(parts, place)),
        AREAS[area][place],
        part=PART,
        erratum=Erratum.exact(by_total, reason),
    )


def _column(rows: Mapping[str, Counts], place: int) -> int:
    return sum(counts[place] for counts in rows.values())


PART = "Table 1, counts of papers"


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Recomputes every cell; the size and the seed are of no effect."""
    del quick, seed
    checks = [
        *arithmetic(survey_checks()),
        *(check for table in TABLES for check in Recount(table).checks()),
    ]
    progress(1.0)
    return Reproduction(EXPERIMENT.name, EXPERIMENT.title, "001, Tables 1 to 4", checks, NOTES)


@dataclass(frozen=True)
class Recount:
    """A printed table computed again by our metrics, with exact fractions to decide."""

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
        check = printed(what, text, float(ours), part=self.table.name, erratum=erratum)
        return replace(check, arithmetic=not what.endswith(_OF_METRICS))

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
