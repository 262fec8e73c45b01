"""What every cell of a measured table is."""

import math

from benchmarks.figures import Cell, Figure, Table


def numbers(cell: Cell) -> tuple[float, ...]:
    """All numbers of a cell; a text has none."""
    if isinstance(cell, str):
        return ()
    return tuple(cell) if isinstance(cell, Figure) else (cell,)


def check(rows: Table) -> None:
    """Every cell is a finite number, and none is negative."""
    cells = [number for row in rows.values() for cell in row.values() for number in numbers(cell)]
    assert cells
    assert all(math.isfinite(number) and number >= 0 for number in cells)
