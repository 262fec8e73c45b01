"""What a benchmark yields: rows of cells, a cell being a number or a median with its spread."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np


class Figure(NamedTuple):
    """Median and quartiles of the rounds of one measurement."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The figure of at least one value."""
        low, median, high = np.percentile(values, (25, 50, 75)).tolist()
        return cls(median, low, high)

    def times(self, factor: float) -> "Figure":
        """The same in another unit; factor > 0."""
        return Figure(self.median * factor, self.low * factor, self.high * factor)


Cell = float | Figure | str
"""A text says why there is no number."""
Table = dict[str, Mapping[str, Cell]]


def transposed(table: Table) -> Table:
    """Rows as columns."""
    columns = dict.fromkeys(name for row in table.values() for name in row)
    return {
        name: {title: row[name] for title, row in table.items() if name in row} for name in columns
    }


def middle(cell: Cell) -> float:
    """The one number that stands for a cell; KeyError where a text says that there is none."""
    if isinstance(cell, str):
        raise KeyError(cell)
    return cell.median if isinstance(cell, Figure) else cell


def shown(cell: Cell | None) -> str:
    """A cell as people read it: `25.1 (24.9-26.0)`, or `-` where there is none."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Figure):
        return f"{_number(cell.median)} ({_number(cell.low)}-{_number(cell.high)})"
    return _number(cell)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
