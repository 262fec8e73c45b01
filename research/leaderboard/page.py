"""The report of a contest."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from app.reports.charts.by_name import differences_chart
from app.reports.charts.over_time import lines_chart
from app.reports.page import Chart, Page, Section, Table, Tile
from app.results.formatting import shown
from research.leaderboard.picture import contest_chart
from research.leaderboard.result import (
    EXCESS,
    GC_3,
    GC_3_TRUE,
    LOG_LOSS,
    Contested,
    ContestResult,
    DriftCurves,
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
    title_of,
    verdict_texts,
    verdict_words,
)
from research.leaderboard.targets import (
    HERO,
    NO_WORSE,
    PUBLISHED,
    Verdict,
    geometric_means,
    ratio_to_published,
    verdicts_of,
)

_TITLES: Final = {EXCESS: "Excess log loss", GC_3_TRUE: "GC-3*", LOG_LOSS: "Log loss", GC_3: "GC-3"}


def contest_page(result: ContestResult, footer: str) -> Page:
    """The page that `sirocco backtest --compare --report` writes."""
    known = [found for found in result.contested if found.truth_known]
    sections = [*([_overall(result, known)] if len(known) > 1 else [])]
    if verdicts_of(result):
        sections.append(_targets(result))
    sections += [_regime(found) for found in result.contested]
    if result.drift is not None:
        sections.append(_drift(result.drift))
    return Page(
        title=_title(result),
        subtitle=", ".join(found.name for found in result.contested),
        verdict=_verdict(result),
        tiles=_tiles(result),
        sections=sections,
        warnings=_warnings(result),
        footer=footer,
    )


def _title(result: ContestResult) -> str:
    logs = [found.name for found in result.contested if not found.truth_known]
    return f"Calibrators compared on {logs[0]}" if len(logs) == 1 else "Calibrators compared"


def _verdict(result: ContestResult) -> str:
    found = verdicts_of(result)
    return (
        verdict_words(found)
        if found
        else f"No targets were set: what counts is below, {HERO} against each other method."
    )


def _warnings(result: ContestResult) -> list[str]:
    missing = dict.fromkeys(
        (name, reason) for found in result.contested for name, reason in found.missing.items()
    )
    logs = [found for found in result.contested if not found.truth_known]
    rough = [f"{found.name}: {said}" for found in logs for said in block_notes(found)]
    return [
        *(f"{name} did not run: {reason}" for name, reason in missing),
        *rough,
        *short_notes(result),
    ]


def _tiles(result: ContestResult) -> list[Tile]:
    tiles = []
    for metric in (EXCESS, GC_3_TRUE):
        ends = geometric_means(result, metric).get(HERO)
        if ends is not None:
            note = f"of {PUBLISHED}'s, over all regimes"
            tiles.append(
                Tile(f"{_TITLES[metric]}, {HERO}", f"{shown(100 * ends.value, '.0f')} %", note)
            )
    verdicts = verdicts_of(result)
    if verdicts:
        met = sum(verdict.met is True for verdict in verdicts)
        tiles.append(Tile("Targets met", f"{met} of {len(verdicts)}", good=met == len(verdicts)))
    return tiles


def _overall(result: ContestResult, known: list[Contested]) -> Section:
    charts: list[Chart | Table] = [_ratios(result, known, m) for m in (EXCESS, GC_3_TRUE)]
    columns = ("method", "excess", "least to most", "GC-3*", "least to most")
    table = Table(columns, overall_rows(result), f"Geometric means of the ratios to {PUBLISHED}")
    return Section("All regimes", HOW_TO_READ, [*charts, table])


def _ratios(result: ContestResult, known: list[Contested], metric: str) -> Chart:
    names = [name for name in result.contenders if any(name in found.rows for found in known)]
    percents = [
        (found.name, *(_percent(ratio_to_published(found, name, metric)) for name in names))
        for found in known
    ]
    title = f"{_TITLES[metric]} by regime"
    return Chart(
        title,
        f"In percent of {PUBLISHED}, on a logarithmic axis; left is better, 0 is the truth. A"
        " triangle at the edge lies beyond the axis.",
        contest_chart(result, metric, title).inline(),
        Table(("regime, %", *names), percents),
    )


def _percent(ratio: float) -> str:
    return shown(100 * ratio, ",.1f")


def _targets(result: ContestResult) -> Section:
    verdicts = verdicts_of(result)
    text = f"Ratios of {HERO} to the other, with 95 % intervals over campaign-days."
    headings = ("regime", *(heading.replace("\n", " ") for heading in HEADINGS.values()))
    rows = [
        (regime, *(_cell({v.target: v for v in found}, name) for name in HEADINGS))
        for regime, found in ((r, list(vs)) for r, vs in groupby(verdicts, lambda v: v.regime))
    ]
    return Section("Targets", text, [Table(headings, rows), _each(verdicts)])


def _cell(verdicts: Mapping[str, Verdict], target: str) -> str:
    verdict = verdicts[target]
    value, _, interval = verdict_texts(verdict)
    return f"{'missed: ' if verdict.met is False else ''}{value} ({interval})"


def _each(verdicts: Sequence[Verdict]) -> Table:
    rows = []
    for verdict in verdicts:
        unit = ", x 10^6" if verdict.target == NO_WORSE else ""
        value, limit, interval = verdict_texts(verdict)
        what = (verdict.regime, f"{verdict.target}{unit}", verdict.against)
        rows.append((*what, MET[verdict.met], value, limit, interval))
    columns = ("regime", "target", "against", "", "value", "limit", "95 % interval")
    return Table(columns, rows, "Every target")


def _regime(found: Contested) -> Section:
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


def _forest(found: Contested, metric: str) -> Chart:
    unit = 1.0 if metric in (GC_3, GC_3_TRUE) else MILLION
    names = [name for name in found.differences if metric in found.differences[name]]
    ends = [found.differences[name][metric] for name in names]
    return differences_chart(
        names,
        [unit * end.value for end in ends],
        [unit * end.lower for end in ends],
        [unit * end.upper for end in ends],
        f"{_TITLES[metric]}: {HERO} less the other{'' if unit == 1 else ', x 10^6'}",
        f"Left of the line {HERO} is better. The bar is the 95 % interval over campaign-days; a"
        " filled mark is beyond chance.",
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
