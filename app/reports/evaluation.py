"""The report of an evaluation."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.reports.charts.by_name import bars_chart, differences_chart
from app.reports.charts.by_score import quantile_chart, reliability_chart
from app.reports.charts.over_time import ratios_by_name_chart, ratios_over_time_chart
from app.reports.page import Chart, Page, Section, Table, Tile
from app.results.backtest import RAW
from app.results.evaluation import EvaluatedLog, SliceTable, conclusions, overview, summary
from app.results.fields import (
    FIELD_HEADINGS,
    SEGMENT_HEADINGS,
    field_row,
    mean_line,
    ratios_of_values,
    segment_row,
)
from app.results.formatting import shown
from evaluation.fields.field_errors import FieldSums
from evaluation.fields.field_log import FieldMetrics

_MOST_ROWS: Final = 200
_DRAWN: Final = 40
_DRAWN_VALUES: Final = 12
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
            *([] if log.fields is None else _by_field(log.fields)),
            *_by_hour(log),
            *(_by_value(title, heading, table) for title, (heading, table) in tables.items()),
            _all_metrics(log),
        ],
        warnings=log.notes,
    )


def _tiles(log: EvaluatedLog) -> list[Tile]:
    numbers = log.overall
    right = log.is_right
    interval = f"{shown(numbers['pcoc_lower'], '.3f')} to {shown(numbers['pcoc_upper'], '.3f')}"
    note = f"{interval} by chance; {'too little to tell' if right is None else '1 is right'}"
    tiles = [
        Tile("PCOC", shown(numbers["pcoc"], ".3f"), note, right),
        Tile("log loss", shown(numbers["log_loss"], ".5f"), f"RIG {shown(numbers['rig'], '.3f')}"),
        Tile("AUC", shown(numbers["auc"], ".4f"), "a random order has 0.5"),
    ]
    name, what = ("gc_3", "GC-3") if len(log.campaigns or ()) > 1 else ("cal_3", "Cal-3")
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


_ABOUT: Final = """Field-RCE is by how much the positives of a typical row's value are off: 0.2 is \
20 %. Read it beside what chance alone makes of it."""


def _by_field(found: FieldMetrics) -> list[Section]:
    """Each field with its picture, and the worst segments of all fields and pairs."""
    fields = Table(FIELD_HEADINGS, [field_row(field, found) for field in found.errors], "Fields")
    mce = found.multicalibration
    segments = Table(
        SEGMENT_HEADINGS,
        [segment_row(segment) for segment in mce.worst[:_DRAWN_VALUES]],
        f"Worst of {mce.segments:,} segments of fields and pairs",
        "Sigmas of the worst stretch of probabilities in the segment; 2.5 comes by chance in 5 % of"
        " segments.",
    )
    charts = [_values_chart(field, sums) for field, sums in found.sums.items()]
    return [Section("By field", f"{_ABOUT} {mean_line(found)}", [fields, segments, *charts])]


def _values_chart(field: str, sums: FieldSums) -> Chart:
    """Predicted over actual positives by value, with intervals, those on top that chance explains
    least."""
    worst = sums.worst_first[:_DRAWN_VALUES]
    ratios = ratios_of_values(sums)
    ends = np.array([ratios[name][worst] for name in ("pcoc", "pcoc_lower", "pcoc_upper")])
    return differences_chart(
        [sums.names[i] for i in worst],
        100.0 * (np.where(np.isfinite(ends), ends, np.nan) - 1.0),
        f"Predicted over actual, by {field}",
        "Right of 0 more was predicted than happened, left of it less; the line is where chance may"
        " take it, and a hollow mark is no more than chance. Those that chance explains least stand"
        " first.",
        unit="%",
        heading=field,
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
