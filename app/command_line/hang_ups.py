"""SIGHUP asks for a reload, unless it tells that the terminal is gone."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Reload:
    """Whether somebody asks for a reload: no lock, for a signal may interrupt who holds it."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self) -> None:
        """Ask for one; to ask again before it is taken changes nothing."""
        self._asked = True

    def taken(self) -> bool:
        """Whether somebody has asked since the last time."""
        if not self._asked:
            return False
        self._asked = False
        return True


@contextmanager
def hang_ups(reload: Callable[[], None]) -> Iterator[None]:
    """Inside, SIGHUP calls `reload`; once our terminal is gone, it ends us as SIGTERM does.

    Under nohup the terminal may go.
    """
    before = signal.getsignal(signal.SIGHUP)
    needs_terminal = before != signal.SIG_IGN and _has_terminal()

    def hang_up(number: int, frame: FrameType | None) -> None:
        if needs_terminal and not _has_terminal():
            # A shell and the kernel may both tell of one end.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.raise_signal(signal.SIGTERM)
        else:
            reload()

    signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _has_terminal() -> bool:
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
