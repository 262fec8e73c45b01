"""Scorecards as tables for people and as JSON for programs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import results
from app.results.formatting import Rows, shown

_REFERENCE = "truth"


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    form: str
    badness: Callable[[float], float] | None = None


def _off(ratio: float) -> float:
    return max(ratio, 1 / ratio) if ratio > 0 else math.inf


_COLUMNS = {
    "n": _Column("impressions", ",.0f"),
    "positives": _Column("clicks", ",.0f"),
    "pcoc": _Column("PCOC", ".3f", _off),
    "log_loss": _Column("log loss", ".5f", abs),
    "auc": _Column("AUC", ".3f", lambda auc: -auc),
    "gc_3": _Column("GC-3", ".3f", abs),
    "gc_4": _Column("GC-4", ".3f", abs),
    "gc_5": _Column("GC-5", ".3f", abs),
}


def show_scorecards(rows: Rows, title: str) -> None:
    """Print scorecards; the best value of a column is bold, the truth does not compete."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for column in _COLUMNS.values():
        table.add_column(column.heading, justify="right", no_wrap=True)
    best = {name: _best(rows, name) for name in _COLUMNS}
    for row in rows:
        table.add_row(*_cells(rows, row, best), style="dim" if row == _REFERENCE else "")
    console = results()
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def print_json(rows: Rows, **more: Any) -> None:
    """Print `{"rows": {row: {column: number}}}` and what is given besides, unless it is empty; an
    undefined number is null."""
    besides = {name: value for name, value in more.items() if value}
    text = orjson.dumps({"rows": {row: dict(card) for row, card in rows.items()}, **besides})
    results().out(text.decode(), highlight=False)


def _cells(rows: Rows, row: str, best: Mapping[str, str | None]) -> list[Text]:
    cells = [Text(row)]
    for name, column in _COLUMNS.items():
        style = "bold green" if best[name] == row else ""
        cells.append(Text(shown(rows[row][name], column.form), style=style))
    return cells


def _best(rows: Rows, name: str) -> str | None:
    badness = _COLUMNS[name].badness
    judged = {row: card[name] for row, card in rows.items() if row != _REFERENCE}
    if badness is None or len(judged) < 2:
        return None
    ranked = {row: badness(value) for row, value in judged.items() if not math.isnan(value)}
    return min(ranked, key=lambda row: ranked[row]) if ranked else None
