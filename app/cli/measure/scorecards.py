"""How scorecards, and differences between calibrators, are printed: tables and JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.text import Text

from app.cli.console import (
    note,
    note_files,
    numbers_table,
    percent_bar,
    print_json,
    print_line,
    print_table,
)
from app.reports.backtest import backtest_page
from app.reports.page import write_page
from app.reports.pictures import draw
from app.results.backtest import (
    HEADINGS,
    RAW,
    WORDS,
    Backtested,
    ScoredEvents,
    about,
    compared_with,
    differences_json,
    references,
    warnings,
)
from app.results.formatting import HOW_TO_READ, Rows, decimals_for, interval_text, shown, value_text
from evaluation.backtest.event_table import scorecards
from evaluation.comparison.significance import Significance, significance

_WORTH_SAYING = 0.001
Pairs = Sequence[tuple[str, str]]


def report_scorecards(
    scored: ScoredEvents, name: str, how: str, *, picture: Path | None, as_json: bool
) -> None:
    """Print the scorecards, and draw the first prediction beside the second.

    `name` says what was evaluated, `how` in which way.
    """
    cards = scorecards(scored.events, scored.predictions)
    found = Backtested(name, how, scored, cards, significance=None, against=RAW)
    report_backtest(found, picture=picture, page=None, as_json=as_json)


def report_backtest(
    found: Backtested, *, picture: Path | None, page: Path | None, as_json: bool
) -> None:
    """The same for a backtest: its differences too, and the page of all of it."""
    if picture is not None:
        draw(found.scored, tuple(found.scored.predictions)[:2], found.name, picture)
    if page is not None:
        write_page(backtest_page(found), page)
    if as_json:
        print_rows(found.cards, differences=differences_of(found), notes=[*found.notes])
        return
    _show(found.scored, found.cards, f"{found.name}: {found.how}")
    if found.significance is not None:
        show_differences(found, found.significance)
    for line in found.notes:
        note(line)
    note_files(picture=picture, report=page)


def _show(scored: ScoredEvents, cards: Rows, title: str) -> None:
    show_scorecards(cards, title)
    note(f"\n{HOW_TO_READ}")
    left_out = scored.share_left_out()
    if left_out > _WORTH_SAYING:
        note(f"GC-3 leaves out {left_out:.1%} of the impressions: their campaigns have few clicks.")


def show_differences(found: Backtested, differences: Significance) -> None:
    """Print which differ beyond chance, and the conclusion."""
    for reference in references(differences):
        show_significance(differences, reference)
    print_line(f"\n{found.conclusion}")
    for line in (f"\n{about(differences)}", *warnings(differences)):
        note(line)


def drawn_differences(
    scored: ScoredEvents, cards: Rows, pairs: Pairs, draws: int, *, seed: int, quiet: bool
) -> Significance | None:
    """How the rows of each pair differ, over `draws` resamples of campaign-days, if any."""
    if not draws:
        return None
    given = (scored.events, scored.predictions, cards, pairs)
    with percent_bar("drawing campaign-days", shown=not quiet) as reached:
        return significance(
            *given, draws=draws, seed=seed, progress=lambda done, of: reached(done / of)
        )


def differences_of(found: Backtested) -> dict[str, Any]:
    """The differences for JSON; empty where none were wanted."""
    if found.significance is None:
        return {}
    return differences_json(found.significance, found.conclusion)


_REFERENCE = "truth"


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    form: str
    badness: Callable[[float], float] | None = None


def _off(ratio: float) -> float:
    return max(ratio, 1 / ratio) if ratio > 0 else math.inf


_COLUMNS = {
    "n": _Column("impressions", ",.0f"),
    "positives": _Column("clicks", ",.0f"),
    "pcoc": _Column("PCOC", ".3f", _off),
    "log_loss": _Column("log loss", ".5f", abs),
    "auc": _Column("AUC", ".3f", lambda auc: -auc),
    "gc_3": _Column("GC-3", ".3f", abs),
    "gc_4": _Column("GC-4", ".3f", abs),
    "gc_5": _Column("GC-5", ".3f", abs),
}


def show_scorecards(rows: Rows, title: str) -> None:
    """Print scorecards; the best value of a column is bold, the truth does not compete."""
    table = numbers_table("", *(column.heading for column in _COLUMNS.values()))
    best = {name: _best(rows, name) for name in _COLUMNS}
    for row in rows:
        table.add_row(*_cells(rows, row, best), style="dim" if row == _REFERENCE else "")
    print_table(table, title)


def print_rows(rows: Rows, **more: Any) -> None:
    """Print `{"rows": {row: {column: number}}}` and what is given besides, unless it is empty."""
    print_json({"rows": rows} | {name: value for name, value in more.items() if value})


def _cells(rows: Rows, row: str, best: Mapping[str, str | None]) -> list[Text]:
    cells = [Text(row)]
    for name, column in _COLUMNS.items():
        style = "bold green" if best[name] == row else ""
        cells.append(Text(shown(rows[row][name], column.form), style=style))
    return cells


def _best(rows: Rows, name: str) -> str | None:
    badness = _COLUMNS[name].badness
    scored = {row: card[name] for row, card in rows.items() if row != _REFERENCE}
    if badness is None or len(scored) < 2:
        return None
    ranked = {row: badness(value) for row, value in scored.items() if not math.isnan(value)}
    return min(ranked, key=lambda row: ranked[row]) if ranked else None


_STYLES: Final = {1: "green", 0: "", -1: "red"}


def show_significance(found: Significance, reference: str) -> None:
    """Print the differences of all that were compared with `reference`."""
    table = numbers_table("", *HEADINGS.values())
    names = compared_with(found, reference)
    places = {metric: _decimals(found, names, reference, metric) for metric in HEADINGS}
    for name in names:
        cells = (_cell(found, (name, reference), metric, places[metric]) for metric in HEADINGS)
        table.add_row(name, *cells)
    print_table(table, f"\nDifference from {reference}")


def _decimals(found: Significance, names: Sequence[str], reference: str, metric: str) -> int:
    """Decimals for a whole column, so that its numbers align."""
    places = [decimals_for(found.differences[name, reference][metric]) for name in names]
    return int(median(places))


def _cell(found: Significance, pair: tuple[str, str], metric: str, decimals: int) -> Text:
    difference, better = found.differences[pair][metric], found.better(pair, metric)
    value = f"{WORDS[better]} {value_text(difference, decimals)}".lstrip()
    interval = interval_text(difference, decimals)
    return Text.assemble((value, _STYLES[better]), "\n", (interval, "dim"), justify="right")
