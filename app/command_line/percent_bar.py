"""A progress bar over a share of the work, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.command_line.progress import progress

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
