"""A table of scores, clicks and no-clicks in exact fractions: the judge between paper and us."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import log

from evaluation.reproduction.auc_tables import COLUMNS, PrintedTable

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
        promised = sum(p * (c + o) for p, c, o in rows) / n
        loss = -sum(c * log(p) + o * log(1 - p) for p, c, o in rows) / n
        entropy = -(rate * log(rate) + (1 - rate) * log(1 - rate))
        return {
            "RIG": 1.0 - loss / entropy,
            "NMSE": float(squares / (rate * (1 - rate))),
            "MAE": float(absolute),
            "PE": float(promised / rate - 1),
        }


def _trapezoids(found: Fractions, passed: Fractions) -> Fractions:
    corners = list(zip([Fraction(0), *passed], [Fraction(0), *found], strict=True))
    return [(right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(corners)]
