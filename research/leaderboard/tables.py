"""The leaderboard as tables in a terminal, and the formats that its pages share with them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isnan
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import note, results
from app.results.formatting import block_warnings, shown
from research.leaderboard import REGIMES
from research.leaderboard.result_file import (
    CPU,
    EXCESS,
    GC_3,
    GC_3_TRUE,
    LOG_LOSS,
    PCOC,
    Interval,
    Leaderboard,
    TrafficResult,
)
from research.leaderboard.targets import (
    ALL,
    DEFAULT_METHOD,
    NO_WORSE,
    PUBLISHED,
    TARGETS,
    TargetResult,
    geometric_means,
    target_results,
)

MILLION: Final = 1e6
MET: Final = {True: "met", False: "missed", None: "unknown"}


def target_cells(found: TargetResult) -> tuple[str, str, str]:
    """Value, limit and interval."""
    numbers = (found.value, found.limit, found.lower, found.upper)
    if found.target == NO_WORSE:
        cells = [shown(MILLION * number, "+.1f" if number else ".0f") for number in numbers]
        return cells[0], cells[1], f"{cells[2]} to {cells[3]}"
    cells = [shown(number, ".2f") for number in numbers]
    if cells[0] == cells[1]:
        # Else a value just above its limit would be missed for no reason that is seen.
        cells[0] = shown(found.value, ".4f")
    return cells[0], cells[1], f"{cells[2]}-{cells[3]}" if found.upper > 0 else "no interval"


def target_lines(targets: Sequence[TargetResult]) -> Iterator[str]:
    """Those that are no ratio of one regime, a line each."""
    for each in targets:
        value, limit, interval = target_cells(each)
        if each.target == NO_WORSE:
            yield f"{each.regime}: {NO_WORSE}, x 10^6: {value} ({interval})"
        elif not each.of_one_ratio:
            missed = "" if each.met else f", {MET[each.met]}"
            yield f"Geometric mean of {each.regime}: {each.target}: {value} (<= {limit}{missed})"


def target_summary(targets: Sequence[TargetResult]) -> str:
    """How many targets are met, and what is missed or unknown."""
    met = sum(each.met is True for each in targets)
    sentences = [f"{met} of {len(targets)} targets are met."]
    sentences += [_missed(each) for each in targets if each.met is False]
    unknown = sum(each.met is None for each in targets)
    if unknown:
        sentences.append(f"{unknown} cannot be told: nobody to compare with ran.")
    absent = sorted({name for each in targets for name in each.absent})
    if absent:
        sentences.append(f"{' and '.join(absent)} did not run: targets are evaluated without.")
    return " ".join(sentences)


def _missed(found: TargetResult) -> str:
    value, limit, interval = target_cells(found)
    than = "not below" if found.limit == 1.0 else "above"
    if found.regime == ALL:
        return f"Missed in the geometric mean: {found.target}: {value} is {than} {limit}."
    return (
        f"Missed in {found.regime}: {found.target} ({found.against}): {value}"
        f" ({interval}) is {than} {limit}."
    )


def difference_text(ends: Interval | None) -> tuple[str, str]:
    """A difference in log loss x 10^6, and its interval."""
    if ends is None:
        return "", ""
    value, lower, upper = (MILLION * end for end in (ends.value, ends.lower, ends.upper))
    interval = f"({shown(lower, ',.0f')} to {shown(upper, ',.0f')})"
    return shown(value, "+,.0f"), "" if isnan(lower) else interval


def block_notes(found: TrafficResult) -> list[str]:
    """What makes the intervals of a log less than they seem."""
    blocks = found.blocks
    return block_warnings(blocks.count, blocks.unit, blocks.effective)


def short_notes(result: Leaderboard) -> list[str]:
    """That regimes were not scored for as long as they are meant to be."""
    short = [
        found.name
        for found in result.traffic
        if found.name in REGIMES and found.hours < REGIMES[found.name].scored_hours
    ]
    if not short:
        return []
    return [f"A short run: not all hours of {', '.join(short)} were scored. Figures will move."]


_SHORT: Final = ("excess/sir", "/strong", "/campaign", "GC-3*/sir", "/others")
HEADINGS: Final = {
    target.name: f"{short}\n{'<' if target.strictly else '<='} {target.limit:.2f}"
    for target, short in zip(TARGETS, _SHORT, strict=True)
}
"""A column of the targets for each ratio: of excess log losses, and of GC-3*."""

HOW_TO_READ: Final = (
    "Excess is the log loss above that of the true probabilities, x 10^6; GC-3* is GC-3 against"
    " the true probabilities. Both are 0 for the truth. CPU is that of all refits."
)
HOW_TO_READ_LOG: Final = (
    "Nobody knows the true probabilities of a real log: what counts is the log loss. CPU is that"
    " of all refits."
)


@dataclass(frozen=True, slots=True)
class Column:
    """How a metric is shown; `badness` is what the best has least of."""

    heading: str
    form: str
    unit: float = 1.0
    badness: Callable[[float], float] | None = None

    def text(self, value: float) -> str:
        """The value in a cell."""
        return shown(value * self.unit, self.form)


COLUMNS: Final = {
    EXCESS: Column("excess", ",.1f", MILLION, abs),
    GC_3_TRUE: Column("GC-3*", ".3f", badness=abs),
    GC_3: Column("GC-3", ".3f", badness=abs),
    LOG_LOSS: Column("log loss", ".6f", badness=abs),
    PCOC: Column("PCOC", ".3f", badness=lambda r: max(r, 1 / r) if r > 0 else math.inf),
    CPU: Column("CPU s", ",.1f"),
}


def columns_of(found: TrafficResult) -> Mapping[str, Column]:
    """Those columns that a regime or log has."""
    known = {name for row in found.rows.values() for name in row}
    return {name: column for name, column in COLUMNS.items() if name in known}


def best_of(found: TrafficResult, metric: str) -> str:
    """Who has the best value of a column; empty where nobody competes."""
    badness = COLUMNS[metric].badness
    if badness is None:
        return ""
    ranked = {
        name: badness(row[metric])
        for name, row in found.rows.items()
        if not math.isnan(row.get(metric, math.nan))
    }
    return min(ranked, key=lambda name: ranked[name]) if len(ranked) > 1 else ""


def show_leaderboard(result: Leaderboard) -> None:
    """Print a table for each regime and log, one over all of them, and the targets."""
    for found in result.traffic:
        _show_regime(found)
    known = [found for found in result.traffic if found.truth_known]
    if len(known) > 1:
        _show_all(result)
    _show_targets(target_results(result))
    for line in short_notes(result):
        note(f"\n{line}")
    if known:
        note(f"\n{HOW_TO_READ}")
    if len(known) < len(result.traffic):
        note(f"\n{HOW_TO_READ_LOG}")


def title_of(found: TrafficResult) -> str:
    """What was run, and how much of it."""
    seeds = f", {len(found.seeds)} seeds" if found.truth_known and len(found.seeds) > 1 else ""
    return (
        f"{found.name}: {found.about}\n{found.impressions:,.0f} impressions,"
        f" {found.positives:,.0f} positives, {found.hours} h scored{seeds}"
    )


def _show_regime(found: TrafficResult) -> None:
    columns = columns_of(found)
    differing = LOG_LOSS if not found.truth_known else ""
    table = _table(["", *(column.heading for column in columns.values())])
    if differing:
        table.add_column(f"{DEFAULT_METHOD} less it, x 10^6", justify="right", no_wrap=True)
    best = {metric: best_of(found, metric) for metric in columns}
    for name in found.rows:
        cells = list(_cells(found, name, columns, best))
        if differing:
            cells.append(_difference(found.differences.get(name, {}).get(differing)))
        table.add_row(*cells, style="bold" if name == DEFAULT_METHOD else "")
    console = results()
    console.print(Text(f"\n{title_of(found)}", style="bold"), soft_wrap=True)
    console.print(table)
    for name, reason in found.missing.items():
        console.print(Text(f"  {name} did not run: {reason}", style="yellow"), soft_wrap=True)
    if differing:
        for line in block_notes(found):
            note(line)


def _cells(
    found: TrafficResult, name: str, columns: Mapping[str, Column], best: Mapping[str, str]
) -> Iterator[Text]:
    yield Text(name)
    for metric, column in columns.items():
        style = "bold green" if best[metric] == name else ""
        yield Text(column.text(found.value(name, metric)), style=style)


def _difference(ends: Interval | None) -> Text:
    value, interval = difference_text(ends)
    style = "" if ends is None else "green" if ends.upper < 0 else "red" if ends.lower > 0 else ""
    return Text.assemble((value, style), " ", (interval, "dim"))


def _show_all(result: Leaderboard) -> None:
    table = _table(["", "excess", "least to most", "GC-3*", "least to most"])
    rows = overall_rows(result)
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == DEFAULT_METHOD else "")
    console = results()
    title = f"\nAll regimes whose scores err: geometric means of the ratios to {PUBLISHED}"
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def overall_rows(result: Leaderboard) -> list[tuple[str, ...]]:
    """Method, and for both metrics the mean ratio and its range over the regimes."""
    means = {metric: geometric_means(result, metric) for metric in (EXCESS, GC_3_TRUE)}
    names = [name for name in result.methods if name in means[EXCESS]]
    ordered = sorted(names, key=lambda name: means[EXCESS][name].value)
    return [
        (name, *(text for by_name in means.values() for text in _percents(by_name.get(name))))
        for name in ordered
    ]


def _percents(ends: Interval | None) -> tuple[str, str]:
    if ends is None:
        return "-", "-"
    value, lower, upper = (shown(100 * e, ",.0f") for e in (ends.value, ends.lower, ends.upper))
    return f"{value} %", f"{lower} to {upper} %"


def _show_targets(targets: Sequence[TargetResult]) -> None:
    if not targets:
        return
    table = _table(["", *HEADINGS.values()])
    ratios = [each for each in targets if each.of_one_ratio]
    for regime, of_regime in groupby(ratios, lambda each: each.regime):
        by_target = {each.target: each for each in of_regime}
        table.add_row(Text(regime), *(_target_cell(by_target.get(name)) for name in HEADINGS))
    console = results()
    console.print(Text(f"\nTargets: {DEFAULT_METHOD} over the others", style="bold"))
    console.print(table)
    for line in target_lines(targets):
        console.print(line, soft_wrap=True, markup=False)
    console.print(f"\n{target_summary(targets)}", soft_wrap=True, markup=False)


def _target_cell(found: TargetResult | None) -> Text:
    if found is None:
        return Text("")
    style = {True: "green", False: "red", None: "yellow"}[found.met]
    value, _, interval = target_cells(found)
    text = f"missed: {value}" if found.met is False else value
    return Text.assemble((text, style), "\n", (interval, "dim"), justify="right")


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    for place, heading in enumerate(headings):
        left = place == 0 or heading in ("target", "against")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    return table
