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
    """A table per part, and one of its ratios; `median (quartiles)` where there were rounds."""
    for result in results:
        for title, rows in ((result.title, result.rows), ("Ratios", result.ratios)):
            if rows:
                Console(width=200).print(_table(title, rows))


def columns_of(rows: Table) -> list[str]:
    """The columns of all rows, in the order they come up."""
    return list(dict.fromkeys(name for row in rows.values() for name in row))


def _table(title: str, rows: Table) -> RichTable:
    table = RichTable(title=title, caption=machine())
    table.add_column("")
    for column in columns_of(rows):
        table.add_column(column, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(shown(row.get(column)) for column in columns_of(rows)))
    return table
