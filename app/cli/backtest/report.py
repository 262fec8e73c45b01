"""What a measuring command ends with: the table, how to read it, the picture."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.cli.backtest.delayed import HOW_TO_READ as HOW_TO_READ_DELAYED
from app.cli.backtest.delayed import show_delayed
from app.cli.backtest.significance import show_significance
from app.cli.console import note, results
from app.cli.tables import print_json, show_scorecards
from app.errors import invocation
from app.reports.backtest import backtest_page
from app.reports.page import how_made, write_page
from app.reports.pictures import draw
from app.results.backtest import Backtested
from app.results.formatting import HOW_TO_READ, Rows
from app.results.scored_events import Judged
from app.results.significance import about, differences_json, references, warnings
from evaluation.comparison.significance import Significance

_WORTH_SAYING = 0.001


def report(judged: Judged, name: str, how: str, *, picture: Path | None, as_json: bool) -> None:
    """Print the scorecards of `judged`, and draw the first prediction beside the second.

    `name` says what was judged, `how` in which way.
    """
    if picture is not None:
        draw(judged, tuple(judged.predictions)[:2], name, picture)
    if as_json:
        print_json(judged.scorecards())
        return
    _show(judged, judged.scorecards(), f"{name}: {how}")
    _say_where(picture=picture)


def report_backtest(
    found: Backtested, *, picture: Path | None, page: Path | None, as_json: bool
) -> None:
    """The same for a backtest: its differences too, and the page of all of it."""
    if picture is not None:
        draw(found.judged, tuple(found.judged.predictions)[:2], found.name, picture)
    if page is not None:
        write_page(backtest_page(found, how_made(invocation(), datetime.now(UTC))), page)
    if as_json:
        print_json(found.cards, differences=_differences(found))
        return
    _show(found.judged, found.cards, f"{found.name}: {found.how}")
    if found.significance is not None:
        _show_differences(found, found.significance)
    for line in found.notes:
        note(line)
    _say_where(picture=picture, report=page)


def _show(judged: Judged, cards: Rows, title: str) -> None:
    show_scorecards(cards, title)
    note(f"\n{HOW_TO_READ}")
    left_out = judged.share_left_out()
    if left_out > _WORTH_SAYING:
        note(f"GC-3 leaves out {left_out:.1%} of the impressions: their campaigns have few clicks.")


def _show_differences(found: Backtested, significance: Significance) -> None:
    for reference in references(significance):
        show_significance(significance, reference)
    results().print(f"\n{found.verdict}", soft_wrap=True, markup=False)
    for line in (f"\n{about(significance)}", *warnings(significance)):
        note(line)


def _differences(found: Backtested) -> dict[str, Any]:
    return {} if found.significance is None else differences_json(found.significance, found.verdict)


def _say_where(**files: Path | None) -> None:
    for what, path in files.items():
        if path is not None:
            note(f"{what.capitalize()}: {path}")


def report_delayed(judged: Judged, name: str, *, picture: Path | None, as_json: bool) -> None:
    """The same for clicks of a delayed target, in the shape of a delayed backtest."""
    if picture is not None:
        draw(judged, tuple(judged.predictions)[:2], name, picture)
    cards = judged.scorecards()
    if as_json:
        print_json(cards)
        return
    title = f"{name}: {len(judged.events):,} clicks judged by their final conversions"
    show_delayed({name: cards}, title)
    note(f"\n{HOW_TO_READ_DELAYED}")
    if picture is not None:
        note(f"Picture: {picture}")
