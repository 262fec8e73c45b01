"""The HTML report of the leaderboard."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from app.reports.charts.by_name import differences_chart, ends_of
from app.reports.charts.over_time import lines_chart
from app.reports.page import Chart, Page, Section, Table, Tile
from app.results.formatting import shown
from research.leaderboard.picture import leaderboard_chart
from research.leaderboard.result_file import (
    EXCESS,
    GC_3,
    GC_3_TRUE,
    LOG_LOSS,
    DriftCurves,
    Leaderboard,
    TrafficResult,
)
from research.leaderboard.tables import (
    HEADINGS,
    HOW_TO_READ,
    HOW_TO_READ_LOG,
    MET,
    MILLION,
    block_notes,
    columns_of,
    overall_rows,
    short_notes,
    target_cells,
    target_summary,
    title_of,
)
from research.leaderboard.targets import (
    DEFAULT_METHOD,
    NO_WORSE,
    PUBLISHED,
    TargetResult,
    geometric_means,
    ratio_to_published,
    target_results,
)

_TITLES: Final = {EXCESS: "Excess log loss", GC_3_TRUE: "GC-3*", LOG_LOSS: "Log loss", GC_3: "GC-3"}


def leaderboard_page(result: Leaderboard, footer: str) -> Page:
    """The page that `sirocco backtest --compare --report` writes."""
    known = [found for found in result.traffic if found.truth_known]
    sections = [*([_overall(result, known)] if len(known) > 1 else [])]
    if target_results(result):
        sections.append(_targets(result))
    sections += [_regime(found) for found in result.traffic]
    if result.drift is not None:
        sections.append(_drift(result.drift))
    return Page(
        title=_title(result),
        subtitle=", ".join(found.name for found in result.traffic),
        verdict=_conclusion(result),
        tiles=_tiles(result),
        sections=sections,
        warnings=_warnings(result),
        footer=footer,
    )


def _title(result: Leaderboard) -> str:
    logs = [found.name for found in result.traffic if not found.truth_known]
    return f"Calibrators compared on {logs[0]}" if len(logs) == 1 else "Calibrators compared"


def _conclusion(result: Leaderboard) -> str:
    found = target_results(result)
    return (
        target_summary(found)
        if found
        else "No targets were set: what counts is below,"
        f" {DEFAULT_METHOD} against each other method."
    )


def _warnings(result: Leaderboard) -> list[str]:
    missing = dict.fromkeys(
        (name, reason) for found in result.traffic for name, reason in found.missing.items()
    )
    logs = [found for found in result.traffic if not found.truth_known]
    rough = [f"{found.name}: {line}" for found in logs for line in block_notes(found)]
    return [
        *(f"{name} did not run: {reason}" for name, reason in missing),
        *rough,
        *short_notes(result),
    ]


def _tiles(result: Leaderboard) -> list[Tile]:
    tiles = []
    for metric in (EXCESS, GC_3_TRUE):
        ends = geometric_means(result, metric).get(DEFAULT_METHOD)
        if ends is not None:
            note = f"of {PUBLISHED}'s, over all regimes"
            tiles.append(
                Tile(
                    f"{_TITLES[metric]}, {DEFAULT_METHOD}",
                    f"{shown(100 * ends.value, '.0f')} %",
                    note,
                )
            )
    targets = target_results(result)
    if targets:
        met = sum(each.met is True for each in targets)
        tiles.append(Tile("Targets met", f"{met} of {len(targets)}", good=met == len(targets)))
    return tiles


def _overall(result: Leaderboard, known: list[TrafficResult]) -> Section:
    charts: list[Chart | Table] = [_ratios(result, known, m) for m in (EXCESS, GC_3_TRUE)]
    columns = ("method", "excess", "least to most", "GC-3*", "least to most")
    table = Table(columns, overall_rows(result), f"Geometric means of the ratios to {PUBLISHED}")
    return Section("All regimes", HOW_TO_READ, [*charts, table])


def _ratios(result: Leaderboard, known: list[TrafficResult], metric: str) -> Chart:
    names = [name for name in result.methods if any(name in found.rows for found in known)]
    percents = [
        (found.name, *(_percent(ratio_to_published(found, name, metric)) for name in names))
        for found in known
    ]
    title = f"{_TITLES[metric]} by regime"
    return Chart(
        title,
        f"In percent of {PUBLISHED}, on a logarithmic axis; left is better, 0 is the truth. A"
        " triangle at the edge lies beyond the axis.",
        leaderboard_chart(result, metric, title).inline(),
        Table(("regime, %", *names), percents),
    )


def _percent(ratio: float) -> str:
    return shown(100 * ratio, ",.1f")


def _targets(result: Leaderboard) -> Section:
    targets = target_results(result)
    text = f"Ratios of {DEFAULT_METHOD} to the other, with 95 % intervals over campaign-days."
    ratios = [each for each in targets if each.of_one_ratio]
    headings = ("regime", *(heading.replace("\n", " ") for heading in HEADINGS.values()))
    rows = [
        (regime, *(_cell({v.target: v for v in found}, name) for name in HEADINGS))
        for regime, found in ((r, list(vs)) for r, vs in groupby(ratios, lambda v: v.regime))
    ]
    return Section("Targets", text, [Table(headings, rows), _each(targets)])


def _cell(targets: Mapping[str, TargetResult], target: str) -> str:
    found = targets[target]
    value, _, interval = target_cells(found)
    return f"{'missed: ' if found.met is False else ''}{value} ({interval})"


def _each(targets: Sequence[TargetResult]) -> Table:
    rows = []
    for each in targets:
        unit = ", x 10^6" if each.target == NO_WORSE else ""
        value, limit, interval = target_cells(each)
        what = (each.regime, f"{each.target}{unit}", each.against)
        rows.append((*what, MET[each.met], value, limit, interval))
    columns = ("regime", "target", "against", "", "value", "limit", "95 % interval")
    return Table(columns, rows, "Every target")


def _regime(found: TrafficResult) -> Section:
    columns = columns_of(found)
    rows = [
        (name, *(column.text(found.value(name, metric)) for metric, column in columns.items()))
        for name in found.rows
    ]
    headings = ("method", *(column.heading for column in columns.values()))
    heading, _, much = title_of(found).partition("\n")
    how = "" if found.truth_known else f"\n\n{HOW_TO_READ_LOG}"
    metrics = (EXCESS, GC_3_TRUE) if found.truth_known else (LOG_LOSS, GC_3)
    charts = [_forest(found, metric) for metric in metrics if found.differences]
    table = Table(headings, rows, f"{found.name}: all methods")
    return Section(found.name, f"{heading}.\n\n{much}.{how}", [*charts, table])


def _forest(found: TrafficResult, metric: str) -> Chart:
    unit = 1.0 if metric in (GC_3, GC_3_TRUE) else MILLION
    names = [name for name in found.differences if metric in found.differences[name]]
    return differences_chart(
        names,
        unit * ends_of(found.differences[name][metric] for name in names),
        f"{_TITLES[metric]}: {DEFAULT_METHOD} less the other{'' if unit == 1 else ', x 10^6'}",
        f"Left of the line {DEFAULT_METHOD} is better. The bar is the 95 % interval over"
        f" {found.blocks.unit}; a filled mark is beyond chance.",
        heading="method",
    )


def _drift(curves: DriftCurves) -> Section:
    chart = lines_chart(
        curves.hours,
        {name: [MILLION * value for value in excess] for name, excess in curves.excess.items()},
        "Excess log loss around a jump, x 10^6",
        "Each line is a method and the minutes between its refits. Lower is better.",
        "hours since the jump",
        "excess x 10^6",
    )
    return Section("Refits within the hour", f"{curves.about}.", [chart])
