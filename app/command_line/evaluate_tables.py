"""The slices and score quantiles of a log in a terminal: the worst first."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from app.command_line.console import results
from app.command_line.evaluate_json import quantile_rows
from app.command_line.evaluated_log import EvaluatedLog, SliceTable
from app.command_line.tables import shown
from app.reports.labels import shortened

_HOURS_OF_A_DAY = 24
_LONGEST_NAME = 18
_QUANTILE_HEADINGS = (
    "part", "positives", "promised", "came true", "by chance", "error", "of log loss"
)  # fmt: skip
_OFF, _FAR_OFF = "yellow", "bold red"
_FAR = 0.2
"""A slice is far off when its PCOC is, by more than this in logarithms, beyond chance."""


def show_slices(log: EvaluatedLog, top: int) -> None:
    """Print the slices of every cut, at most `top` of each."""
    if log.campaigns is not None and len(log.campaigns) > 1:
        _show(log.campaigns, "campaigns", "campaign", top)
    for column, table in log.by.items():
        _show(table, f"values of {column}", column, top)
    if log.hours is not None and len(log.hours) > 1:
        _show_hours(log.hours, top)


def show_quantiles(log: EvaluatedLog) -> None:
    """Print the score quantiles, lowest scores first."""
    rows = quantile_rows(log)
    table = _table(_QUANTILE_HEADINGS)
    for place, row in enumerate(rows, 1):
        inside = row["rate_lower"] <= row["probability"] <= row["rate_upper"]
        table.add_row(
            f"{place}",
            shown(row["positives"], ",.0f"),
            _percent(row["probability"]),
            _percent(row["rate"]),
            f"{_percent(row['rate_lower'])} to {_percent(row['rate_upper'])}",
            Text(shown(row["prediction_error"], "+.0%"), style="" if inside else _OFF),
            shown(row["log_loss_share"], ".0%"),
        )
    size = log.overall["n"] / len(rows)
    _print(f"By score: {len(rows)} parts of about {size:,.0f} rows, lowest scores first", table)


def _show_hours(hours: SliceTable, top: int) -> None:
    if len(hours) <= max(_HOURS_OF_A_DAY, top):
        _print(_title(hours, "hours"), _slices(hours, "hour, UTC", range(len(hours))))
    else:
        _show(hours, "hours", "hour, UTC", top)


def _show(table: SliceTable, what: str, heading: str, top: int) -> None:
    rows = table.worst_first[:top]
    more = len(table) - len(rows)
    note = f"and {more:,} more: --top shows more of them, --json has all" if more else ""
    _print(_title(table, what), _slices(table, heading, rows), note)


def _title(table: SliceTable, what: str) -> str:
    chance = table.off_by_chance
    expected = f"about {chance:,.0f}" if chance > 0.5 else "hardly any"
    return (
        f"{table.off:,} of {len(table):,} {what} are off by more than chance"
        f" (if all were right, {expected} would seem so)"
    )


def _slices(table: SliceTable, heading: str, rows: Iterable[int]) -> Table:
    ranked = "cs_auc" in table.columns
    headings = [heading, "rows", "positives", "PCOC", "by chance", "log loss", "AUC"]
    shown_table = _table([*headings, "csAUC"] if ranked else headings)
    for i in rows:
        row = table.row(i)
        cells: list[Text | str] = [
            Text(shortened(table.names[i], _LONGEST_NAME)),
            shown(row["n"], ",.0f"),
            shown(row["positives"], ",.0f"),
            Text(shown(row["pcoc"], ".2f"), style=_style(float(table.beyond_chance[i]))),
            f"{shown(row['pcoc_lower'], '.2f')}-{shown(row['pcoc_upper'], '.2f')}",
            shown(row["log_loss"], ".4f"),
            shown(row["auc"], ".3f"),
        ]
        if ranked:
            cells.append(shown(row["cs_auc"], ".3f"))
        shown_table.add_row(*cells)
    return shown_table


def _style(beyond_chance: float) -> str:
    if not beyond_chance:
        return ""
    return _FAR_OFF if beyond_chance > _FAR else _OFF


def _percent(share: float) -> str:
    """A share with three digits, such as 0.0691 %."""
    return shown(100.0 * share, ".2g" if share < 0.1 else ".3g") + " %"


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for place, heading in enumerate(headings):
        # A blank more, so that numbers stand apart.
        table.add_column(
            f" {heading}" if place else heading, justify="right" if place else "left", no_wrap=True
        )
    return table


def _print(title: str, table: Table, note: str = "") -> None:
    console = results()
    console.print(Text(f"\n{title}", style="bold"), soft_wrap=True)
    console.print(table)
    if note:
        console.print(Text(note, style="dim"), soft_wrap=True)
