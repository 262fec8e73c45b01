"""Where a command writes: results to stdout, everything else to stderr.

What writes is imported with the first word: a process that serves says none.

Progress bars on stderr.
A progress bar over a share of the work, on stderr.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.errors import Advance

if TYPE_CHECKING:
    from rich.console import Console


def results() -> "Console":
    """The console of tables and answers."""
    from rich.console import Console

    return Console(highlight=False)


def messages() -> "Console":
    """The console of progress, notes and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """Say one thing that is no result."""
    messages().print(text, soft_wrap=True, markup=False)


@contextmanager
def progress(what: str, total: int, unit: str, *, shown: bool) -> Iterator[Advance]:
    """A bar over `total` steps; after each step, call what it gives with how things stand."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(f"{unit}  {{task.fields[standing]}}"),
    )
    with Progress(*columns, console=messages(), disable=not shown, transient=True) as bar:
        task = bar.add_task(what, total=total, standing="")
        yield lambda standing: bar.update(task, advance=1, standing=standing)


Reached = Callable[[float], None]


@contextmanager
def percent_bar(what: str, *, shown: bool) -> Iterator[Reached]:
    """A bar from 0 to 100 %; call what it gives with the share that is done."""
    percent = 0
    with progress(what, 100, "%", shown=shown) as advance:

        def reached(share: float) -> None:
            nonlocal percent
            for _ in range(int(100 * share) - percent):
                advance("")
            percent = max(percent, int(100 * share))

        yield reached
