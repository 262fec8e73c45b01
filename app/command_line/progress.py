"""Progress bars on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.command_line.console import messages

Advance = Callable[[str], None]


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
