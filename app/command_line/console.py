"""Where a command writes: results to stdout, everything else to stderr.

What writes is imported with the first word: a process that serves says none.
"""

from typing import TYPE_CHECKING

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
