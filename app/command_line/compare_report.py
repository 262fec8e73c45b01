"""What `sirocco compare` ends with: the table, the verdict, how to read both, the page."""

from datetime import UTC, datetime
from pathlib import Path

from app.command_line.compare_tables import (
    HOW_TO_READ,
    STARRED,
    about,
    print_comparison,
    show_comparison,
)
from app.command_line.compare_verdict import compare_verdict
from app.command_line.compared import Compared
from app.command_line.compared_runs import ComparedRuns
from app.command_line.console import note, results
from app.command_line.invocation import invocation
from app.command_line.run_tables import HOW_TO_READ_RUNS, print_runs, show_runs
from app.reports.compare_page import compare_page
from app.reports.page import Page, how_made, write_page
from app.reports.runs_page import runs_page


def report_comparison(compared: Compared, *, page: Path | None, as_json: bool) -> None:
    """Of two logs."""
    verdict = compare_verdict(compared)
    _write(compare_page(compared, verdict, _footer()) if page else None, page)
    if as_json:
        print_comparison(compared, verdict)
        return
    show_comparison(compared)
    _say(verdict)
    for line in (f"\n{HOW_TO_READ}", f"\n{STARRED} {about(compared)}", *compared.warnings):
        note(line)
    _say_where(page)


def report_runs(compared: ComparedRuns, *, page: Path | None, as_json: bool) -> None:
    """Of two folders of runs."""
    _write(runs_page(compared, _footer()) if page else None, page)
    if as_json:
        print_runs(compared)
        return
    show_runs(compared)
    _say(compared.verdict)
    for line in (f"\n{HOW_TO_READ_RUNS}", *compared.warnings):
        note(line)
    _say_where(page)


def _footer() -> str:
    return how_made(invocation(), datetime.now(UTC))


def _write(page: Page | None, path: Path | None) -> None:
    if page is not None and path is not None:
        write_page(page, path)


def _say(verdict: str) -> None:
    results().print(f"\n{verdict}", soft_wrap=True, markup=False)


def _say_where(page: Path | None) -> None:
    if page is not None:
        note(f"Report: {page}")
