"""What a measuring command ends with: the table, how to read it, the picture."""

from pathlib import Path

from app.command_line.console import note
from app.command_line.delayed_tables import HOW_TO_READ as HOW_TO_READ_DELAYED
from app.command_line.delayed_tables import show_delayed
from app.command_line.judged import Judged
from app.command_line.reliability_picture import draw
from app.command_line.tables import HOW_TO_READ, print_json, show_scorecards

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
    show_scorecards(judged.scorecards(), f"{name}: {how}")
    note(f"\n{HOW_TO_READ}")
    left_out = judged.share_left_out()
    if left_out > _WORTH_SAYING:
        note(f"GC-3 leaves out {left_out:.1%} of the impressions: their campaigns have few clicks.")
    if picture is not None:
        note(f"Picture: {picture}")


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
