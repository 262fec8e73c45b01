"""The table of a delayed backtest, in the shape of the paper's Table 2."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import orjson
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from app.command_line.console import results
from app.command_line.tables import Rows, print_json, shown
from evaluation.delayed_backtest import ORACLE

Card = dict[str, float]

HOW_TO_READ = (
    "PCOC is promised over actual conversions: 1 is right. GC-N is how far off the promise is"
    " inside a campaign's N score bins: 0 is right; in brackets, how much lower (-) or higher (+)"
    " than without calibration."
)
ABOUT_ORACLE = f"The row {ORACLE} learns from conversions that nobody can know yet."
_COLUMNS = {"pcoc": "PCOC", "gc_3": "GC-3", "gc_4": "GC-4", "gc_5": "GC-5"}


def show_delayed(logs: Mapping[str, Rows], title: str) -> None:
    """Print the rows of a log; of several, their mean and then their standard deviation."""
    listed = [*logs.values()]
    means = mean_of(listed)
    _show(title, means, lambda row, column: _compared(means, row, column))
    if len(listed) > 1:
        spreads = spread_of(listed)
        about = f"Standard deviation over the {len(listed)} logs"
        _show(about, spreads, lambda row, column: shown(spreads[row][column], ".3f"))


def print_delayed_json(logs: Mapping[str, Rows]) -> None:
    """Print `{"rows": ...}`, as of any table. Of several logs that is the mean; then their standard
    deviation is `spread`, and the rows of each log are `logs`."""
    listed = [*logs.values()]
    if len(listed) == 1:
        print_json(listed[0])
        return
    answer = {"rows": mean_of(listed), "spread": spread_of(listed), "logs": dict(logs)}
    results().out(orjson.dumps(answer, default=dict).decode(), highlight=False)


def mean_of(logs: Sequence[Rows]) -> dict[str, Card]:
    """The mean of each number over the logs."""
    return _over(logs, lambda values: float(values.mean()))


def spread_of(logs: Sequence[Rows]) -> dict[str, Card]:
    """The standard deviation of each number over the logs; nan of a single one."""
    return _over(logs, _deviation)


def _over(logs: Sequence[Rows], of: Callable[[NDArray[np.float64]], float]) -> dict[str, Card]:
    return {
        row: {column: of(np.array([log[row][column] for log in logs])) for column in card}
        for row, card in logs[0].items()
    }


def _deviation(values: NDArray[np.float64]) -> float:
    if len(values) < 2 or not np.isfinite(values).all():
        return float("nan")
    return float(values.std(ddof=1))


def _show(title: str, rows: Rows, cell: Callable[[str, str], str]) -> None:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in _COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [cell(row, column) for column in _COLUMNS]
        table.add_row(row, *cells, style="dim" if row == ORACLE else "")
    console = results()
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def _compared(rows: Rows, row: str, column: str) -> str:
    """The number, and for GC-N by how much it differs from the first row, no calibration."""
    raw = next(iter(rows))
    value, before = rows[row][column], rows[raw][column]
    text = shown(value, ".3f")
    if column == "pcoc" or row == raw or not 0 < before < np.inf or not np.isfinite(value):
        return text
    change = 100 * (value / before - 1)
    return f"{text} ({change:+.{0 if change >= 100 else 1}f}%)"
