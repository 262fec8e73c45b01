"""How benchmarks print: tables for people, or JSON, with the machine they ran on."""

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.figures import Table, shown
from benchmarks.machine import machine, versions
from benchmarks.report.results import Result, plain_rows


def print_json(results: Sequence[Result]) -> None:
    """`{"machine", "versions", "measured_at", "parts", "ratios"}`, the last three by part.

    Rows are `{row: {column: number, text or figure}}`.
    """
    answer = {
        "machine": machine(),
        "versions": versions(),
        "measured_at": {result.part: result.measured_at.isoformat() for result in results},
        "parts": {result.part: plain_rows(result.rows) for result in results},
        "ratios": {result.part: plain_rows(result.ratios) for result in results if result.ratios},
    }
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")


def print_tables(results: Sequence[Result]) -> None:
    """A table per part for the rows of the same columns, and one of its ratios;
    `median (quartiles)` where there were rounds."""
    for result in results:
        for title, rows in ((result.title, result.rows), ("Ratios", result.ratios)):
            for alike in _alike(rows):
                Console(width=200).print(_table(title, alike))


def columns_of(rows: Table) -> list[str]:
    """The columns of all rows, in the order they come up."""
    return list(dict.fromkeys(name for row in rows.values() for name in row))


_MOST_COLUMNS = 12


def _alike(rows: Table) -> list[Table]:
    """All together where they fit on a line, else rows of the same columns at a time."""
    if len(columns_of(rows)) <= _MOST_COLUMNS:
        return [rows] if rows else []
    found: dict[tuple[str, ...], Table] = {}
    for name, row in rows.items():
        found.setdefault(tuple(row), {})[name] = row
    return [*found.values()]


def _table(title: str, rows: Table) -> RichTable:
    columns = columns_of(rows)
    if len(columns) > _MOST_COLUMNS:
        rows = {
            column: {name: row[column] for name, row in rows.items() if column in row}
            for column in columns
        }
        columns = columns_of(rows)
    table = RichTable(title=title, caption=machine())
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(shown(row.get(column)) for column in columns))
    return table
