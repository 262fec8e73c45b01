"""The report of an evaluation."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.reports.charts.by_name import bars_chart
from app.reports.charts.by_score import quantile_chart, reliability_chart
from app.reports.charts.over_time import ratios_by_name_chart, ratios_over_time_chart
from app.reports.fields import field_sections
from app.reports.page import Chart, Page, Section, Table, Tile
from app.results.evaluation import EvaluatedLog, SliceTable, conclusions, overview, summary
from app.results.formatting import shown
from app.results.scored_events import RAW

_MOST_ROWS: Final = 200
_DRAWN: Final = 40
_COLUMNS: Final = {
    "n": ("impressions", ",.0f"),
    "positives": ("positives", ",.0f"),
    "pcoc": ("PCOC", ".3f"),
    "pcoc_lower": ("from", ".3f"),
    "pcoc_upper": ("to", ".3f"),
    "ropr": ("ROPR", ".3f"),
    "log_loss": ("log loss", ".5f"),
    "rig": ("RIG", ".4f"),
    "auc": ("AUC", ".4f"),
    "cs_auc": ("csAUC", ".4f"),
    "cal_3": ("Cal-3", ".3f"),
    "cal_3_floor": ("of the truth", ".3f"),
}


def evaluate_page(log: EvaluatedLog) -> Page:
    """The page that `sirocco evaluate --report` writes."""
    tables = {f"By {column}": (column, table) for column, table in log.by.items()}
    if log.campaigns is not None and len(log.campaigns) > 1:
        tables = {"By campaign": ("campaign", log.campaigns)} | tables
    return Page(
        title=f"Evaluation of {log.name}",
        subtitle=summary(log),
        verdict="\n\n".join(conclusions(log)),
        tiles=_tiles(log),
        sections=[
            _by_score(log),
            *([] if log.fields is None else field_sections(log.fields)),
            *_by_hour(log),
            *(_by_value(title, heading, table) for title, (heading, table) in tables.items()),
            _all_metrics(log),
        ],
        warnings=log.notes,
    )


def _tiles(log: EvaluatedLog) -> list[Tile]:
    numbers = log.overall
    inside = numbers["pcoc_lower"] <= 1.0 <= numbers["pcoc_upper"]
    interval = f"{shown(numbers['pcoc_lower'], '.3f')} to {shown(numbers['pcoc_upper'], '.3f')}"
    tiles = [
        Tile("PCOC", shown(numbers["pcoc"], ".3f"), f"{interval} by chance; 1 is right", inside),
        Tile("log loss", shown(numbers["log_loss"], ".5f"), f"RIG {shown(numbers['rig'], '.3f')}"),
        Tile("AUC", shown(numbers["auc"], ".4f"), "a random order has 0.5"),
    ]
    name, what = ("gc_3", "GC-3") if "gc_3" in numbers else ("cal_3", "Cal-3")
    floor = shown(numbers[f"{name}_floor"], ".3f")
    tiles.append(Tile(what, shown(numbers[name], ".3f"), f"the truth itself: {floor}"))
    if "cs_auc" in numbers:
        random = shown((1.0 + numbers["cs_auc_worst"]) / 2.0, ".2f")
        tiles.append(Tile("csAUC", shown(numbers["cs_auc"], ".4f"), f"a random order has {random}"))
    return tiles


def _by_score(log: EvaluatedLog) -> Section:
    return Section(
        "By score",
        "What is right on the whole may be too high for low scores and too low for high ones.",
        [
            reliability_chart({RAW: log.metrics.reliability}),
            quantile_chart({RAW: log.metrics.quantiles}),
        ],
    )


def _by_hour(log: EvaluatedLog) -> list[Section]:
    hours = log.hours
    if hours is None or len(hours) < 2:
        return []
    columns = hours.columns
    chart = ratios_over_time_chart(
        log.epoch_hours,
        {RAW: columns["pcoc"]},
        lower={RAW: columns["pcoc_lower"]},
        upper={RAW: columns["pcoc_upper"]},
    )
    return [Section("By hour", "", [chart, _table(hours, "hour", range(len(hours)))])]


def _by_value(title: str, heading: str, table: SliceTable) -> Section:
    worst = table.worst_first
    largest = np.argsort(-table.columns["n"], kind="stable")[:_DRAWN].tolist()
    parts: list[Chart | Table] = [
        ratios_by_name_chart(
            [table.names[i] for i in worst[:_DRAWN]],
            {RAW: table.columns["pcoc"][worst[:_DRAWN]]},
            title=f"Predicted over actual, by {heading}",
            caption="Right of 1 more was predicted than happened, left of it less. Those that"
            " chance explains least stand first.",
            heading=heading,
        ),
        _ranking(heading, table, largest),
        _table(table, heading, worst),
    ]
    return Section(title, "", parts)


def _ranking(heading: str, table: SliceTable, rows: Sequence[int]) -> Chart:
    series = {"AUC": table.columns["auc"][rows]}
    both = "cs_auc" in table.columns
    if both:
        series["csAUC"] = table.columns["cs_auc"][rows]
    beside = (
        " csAUC is AUC in money: where it is lower, dear positives rank too low." if both else ""
    )
    return bars_chart(
        [table.names[i] for i in rows],
        series,
        f"Ranking inside each {heading}",
        f"How often a positive ranks above a negative: 1 is best, 0.5 is random.{beside} The"
        " largest stand first.",
        heading=heading,
    )


def _table(table: SliceTable, heading: str, rows: Sequence[int]) -> Table:
    columns = {
        name: form
        for name, form in _COLUMNS.items()
        if name in table.columns and not np.isnan(table.columns[name]).all()
    }
    cells = [
        (
            table.names[i],
            *(shown(float(table.columns[name][i]), form) for name, (_, form) in columns.items()),
        )
        for i in rows[:_MOST_ROWS]
    ]
    more = len(table) - len(cells)
    note = f"And {more:,} more; --json has all." if more else ""
    return Table(
        (heading, *(title for title, _ in columns.values())), cells, f"Every {heading}", note
    )


def _all_metrics(log: EvaluatedLog) -> Section:
    tables = [
        Table(
            ("", "value", "how to read it"),
            [(line.name, line.value, line.reading) for line in part.lines],
            f"{part.title}: {part.question}",
        )
        for part in overview(log)
    ]
    return Section("All metrics", "", tables)
