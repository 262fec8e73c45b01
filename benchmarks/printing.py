"""How benchmarks print: tables for people, or JSON, with the machine they ran on."""

import json
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.figures import Cell, Figure, Table, shown
from benchmarks.machine import machine, versions

Titled = Mapping[str, tuple[str, Table]]


def print_json(tables: Titled) -> None:
    """`{"machine", "versions", "parts": {part: {row: {column: number or figure}}}}`."""
    parts = {
        part: {name: {column: _plain(cell) for column, cell in row.items()} for name, row in rows}
        for part, (_, table) in tables.items()
        for rows in [table.items()]
    }
    answer = {"machine": machine(), "versions": versions(), "parts": parts}
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")


def print_tables(tables: Titled) -> None:
    """One table per part; `median (quartiles)` where there were rounds."""
    for title, rows in tables.values():
        Console(width=160).print(_table(title, rows))


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


def _plain(cell: Cell) -> float | dict[str, float]:
    return cell._asdict() if isinstance(cell, Figure) else cell
