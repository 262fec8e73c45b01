"""Where a command writes: results to stdout, progress, notes and errors to stderr."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from app.datasets.options import Reading
from app.errors import Advance
from app.log_lines import CONTROLS, LoggedOutput, is_json

Reached = Callable[..., None]
CLOSED_PIPE = 141
"""What a shell says of a program that SIGPIPE ended: nobody reads on, which is no failure."""


class _Output(Console):
    def on_broken_pipe(self) -> None:
        try:
            super().on_broken_pipe()
        except SystemExit:
            sys.exit(CLOSED_PIPE)


def results() -> Console:
    """The console of tables and answers; a file, or a pipe, is as wide as any unless COLUMNS is."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return _Output(highlight=False, width=None if narrow else 1_000)


def messages() -> Console:
    """The console of progress, notes and errors: stderr, or the log where that is of JSON."""
    if is_json():
        return Console(file=LoggedOutput(), highlight=False)  # type: ignore[arg-type]
    return _Output(stderr=True, highlight=False)


_IN_A_LINE: Final = {code: text for code, text in CONTROLS.items() if code != ord("\n")}


def plain(text: str, style: str = "") -> Text:
    """A text in one line as it is, without markup; control characters as \\x1b."""
    return Text(text.translate(CONTROLS), style=style)


def note(text: str, of: str = "") -> None:
    """Print one thing that is no result: an error where it is `of` something."""
    line = Text.assemble((of, "bold red"), text.translate(_IN_A_LINE))
    messages().print(line, soft_wrap=True)


def print_line(text: str, style: str = "") -> None:
    """Print a line of a result, below an empty one where it begins with a line's end."""
    line = text.removeprefix("\n")
    above = text[: len(text) - len(line)]
    results().print(Text(above).append_text(plain(line, style)), soft_wrap=True)


def utc(seconds: float) -> str:
    """A moment, in seconds since 1970, as it is printed."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def print_json(document: Any) -> None:
    """Print a document in one line; an undefined number is null."""
    results().out(orjson.dumps(document, default=dict).decode(), highlight=False)


def numbers_table(*headings: str) -> Table:
    """An empty table: names in the first column, numbers aligned on the right in the others."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    for place, heading in enumerate(headings):
        justify = "right" if place else "left"
        table.add_column(plain(heading), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    return table


def print_table(table: Table, title: str = "") -> None:
    """Print a table under its title."""
    if title:
        print_line(title, "bold")
    results().print(table)


def note_files(**files: Path | None) -> None:
    """Say where the files are that were written, by what they are."""
    for what, path in files.items():
        if path is not None:
            note(f"{what.capitalize()}: {path}")


def note_skipped(reading: Reading) -> None:
    """Say which rows of a log were skipped."""
    for text in reading.skipped.notes():
        note(text)


@contextmanager
def progress(what: str, total: int, unit: str, *, shown: bool) -> Iterator[Advance]:
    """A bar over `total` steps; after each step, call what it gives with how things stand."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(f"{unit}  {{task.fields[standing]}}"),
    )
    # Where there is no terminal, nothing but an empty line would be left of it.
    shown = shown and messages().is_terminal
    with Progress(*columns, console=messages(), disable=not shown, transient=True) as bar:
        task = bar.add_task(what, total=total, standing="")
        yield lambda standing: bar.update(task, advance=1, standing=standing)


@contextmanager
def percent_bar(what: str, *, shown: bool) -> Iterator[Reached]:
    """A bar from 0 to 100 %; call what it gives with the share that is done, and maybe with how
    things stand."""
    percent = 0
    with progress(what, 100, "%", shown=shown) as advance:

        def reached(share: float, standing: str = "") -> None:
            nonlocal percent
            for _ in range(int(100 * share) - percent):
                advance(standing)
            percent = max(percent, int(100 * share))

        yield reached
