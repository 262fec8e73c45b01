"""The metrics of a whole log in a terminal: what each is, and how to read it.

The slices and score quantiles of a log in a terminal: the worst first.
What `sirocco evaluate --json` prints.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import results
from app.reports.labels import shortened
from app.results.evaluation import EvaluatedLog, SliceTable, summary, verdict
from app.results.formatting import shown
from app.results.overview import overview
from app.results.scored_events import RAW
from evaluation.streaming import OVERALL


def show_title(log: EvaluatedLog) -> None:
    """Print what the log is and what its metrics say."""
    console = results()
    console.print(Text(f"{log.name}: {summary(log)}", style="bold"), soft_wrap=True)
    for sentence in verdict(log):
        console.print(Text(sentence), soft_wrap=True)


def show_overview(log: EvaluatedLog) -> None:
    """Print all metrics of the log."""
    console = results()
    for part in overview(log):
        console.print(Text.assemble("\n", (part.title, "bold"), f": {part.question}"))
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        for style, width in (("", 20), ("bold", 22), ("dim", 36)):
            table.add_column(style=style, width=width)
        for line in part.lines:
            table.add_row(Text(line.name), Text(line.value), Text(line.reading))
        console.print(table)


_ALWAYS = (
    "n", "positives", "pcoc", "log_loss", "auc", "gc_3", "gc_4", "gc_5", "gauc", "cs_auc", "gcs_auc"
)  # fmt: skip


def print_evaluated(log: EvaluatedLog) -> None:
    """Print `{"rows": {"raw": {column: number}}, "campaigns": {name: {...}}, ...}`; an undefined
    or infinite number is null."""
    results().out(orjson.dumps(evaluated_json(log)).decode(), highlight=False)


def evaluated_json(log: EvaluatedLog) -> dict[str, Any]:
    """The answer as values of JSON, but for nan and infinities, which are printed as null."""
    return {
        "rows": {RAW: dict.fromkeys(_ALWAYS, math.nan) | dict(log.overall)},
        "campaigns": _slices_json(log.campaigns),
        "hours": _slices_json(log.hours),
        "by": {column: _slices_json(table) for column, table in log.by.items()},
        "quantiles": quantile_rows(log),
        "score_cells_per_octave": log.fewest_cells,
        "precision": _precision(log),
        "notes": [*log.notes],
    }


def quantile_rows(log: EvaluatedLog) -> list[dict[str, float]]:
    """The score quantiles, lowest scores first, with the metrics of each."""
    found = log.metrics.quantiles
    total = log.overall["log_loss"] * log.overall["n"]
    columns = {
        "n": found.weights,
        "positives": found.weights * found.rates,
        "probability": found.probabilities,
        "rate": found.rates,
        "rate_lower": found.lower,
        "rate_upper": found.upper,
        "prediction_error": found.prediction_errors,
        "log_loss": found.loss_shares * total / found.weights,
        "log_loss_share": found.loss_shares,
    }
    lists = {name: column.tolist() for name, column in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _slices_json(table: SliceTable | None) -> Mapping[str, Mapping[str, float]]:
    if table is None:
        return {}
    lists = {name: column.tolist() for name, column in table.columns.items()}
    rows = zip(*lists.values(), strict=True)
    return {
        name: dict(zip(lists, row, strict=True))
        for name, row in zip(table.names, rows, strict=True)
    }


def _precision(log: EvaluatedLog) -> dict[str, dict[str, float | None]]:
    tables = {"campaigns": log.campaigns, "hours": log.hours} | {
        f"by {column}": table for column, table in log.by.items()
    }
    cuts = {RAW: log.metrics.groupings[OVERALL]}
    cuts |= {name: table.metrics for name, table in tables.items() if table is not None}
    return {
        name: {
            "score_cells_per_octave": cut.cells_per_octave,
            "auc_error_at_most": cut.auc_error,
        }
        for name, cut in cuts.items()
    }


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
