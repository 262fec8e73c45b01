"""Where a command writes: results to stdout, everything else to stderr."""

from rich.console import Console


def results() -> Console:
    """The console of tables and answers."""
    return Console(highlight=False)


def messages() -> Console:
    """The console of progress, notes and errors."""
    return Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """Say one thing that is no result."""
    messages().print(text, soft_wrap=True, markup=False)
