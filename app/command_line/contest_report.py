"""What a contest ends with: tables or JSON, the page, the picture, the Markdown page."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from app.command_line.canvas import check_picture
from app.command_line.console import note, results
from app.command_line.contest_markdown import check_marks, write_between_marks
from app.command_line.contest_result import ContestResult, result_json
from app.command_line.contest_tables import show_contest
from app.command_line.contest_targets import Verdict, verdicts_of
from app.command_line.errors import FAILED, CommandError
from app.command_line.invocation import invocation
from app.reports.contest_page import contest_page
from app.reports.contest_picture import contest_picture
from app.reports.page import check_report, write_page

_DPI: Final = 144


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where a contest's result goes, besides the terminal."""

    picture: Path | None
    report: Path | None
    page: Path | None
    as_json: bool

    def check(self) -> None:
        """A `CommandError`, before any work is done, for what cannot be written."""
        if self.picture is not None:
            check_picture(self.picture)
        if self.report is not None:
            check_report(self.report)
        if self.page is not None:
            check_marks(self.page)


def report_contest(result: ContestResult, outlets: Outlets) -> None:
    """Write and print all that is asked for."""
    if outlets.picture is not None:
        _save(result, outlets.picture)
    if outlets.report is not None:
        write_page(contest_page(result, _footer(result)), outlets.report)
    if outlets.page is not None:
        write_between_marks(result, outlets.page)
    if outlets.as_json:
        verdicts = [_plain(verdict) for verdict in verdicts_of(result)]
        results().out(result_json(result, verdicts).decode(), highlight=False, end="")
        return
    show_contest(result)
    for what, path in (
        ("Picture", outlets.picture),
        ("Report", outlets.report),
        ("Page", outlets.page),
    ):
        if path is not None:
            note(f"{what}: {path}")


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "clear": verdict.clear}


def _save(result: ContestResult, path: Path) -> None:
    drawing = contest_picture(result)
    try:
        if path.suffix.lower() == ".svg":
            path.write_text(drawing.svg(), encoding="utf-8")
        else:
            drawing.figure().savefig(path, dpi=_DPI)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error


def _footer(result: ContestResult) -> str:
    """How the page was made, and the plays behind it."""
    made = [f"{origin.command}\n{origin.at}, {origin.machine}" for origin in result.origins]
    return "\n".join([f"Made by: {invocation()}", *made])
