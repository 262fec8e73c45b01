"""Tables 2, 3 and 4 of paper 001 as printed."""

from collections.abc import Sequence
from dataclasses import dataclass

COLUMNS = ("TPR", "FPR", "trapezoid", "actual CTR", "avg pClick / CTR")


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

    Attributes
    ----------
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
