"""What signals do to a command and to its child processes.

SIGTERM and SIGHUP end a command as Ctrl-C does: every `with` block is left, every child is stopped.
A child ends when the process that started it is gone, however that one ended. SIGHUP asks a service
for a reload, unless it tells that the terminal is gone.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Ask Linux for SIGTERM at the end of process `parent`; elsewhere only its own stop ends us.

    The second look covers a parent that was gone before the request was made.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)


class Terminated(KeyboardInterrupt):
    """The signal that ended the command, where it was not Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Inside, SIGTERM raises Terminated in the main thread, and, but under nohup, SIGHUP."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP)
    ends = [each for each in numbers if signal.getsignal(each) != signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # A shell and the kernel may both tell of one end: the second must not cut the first short.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise Terminated(number)


class Reload:
    """Whether a reload was requested: no lock, for a signal may interrupt who holds it."""

    def __init__(self) -> None:
        self._requested = False

    def request(self) -> None:
        """Request one; a second request before it is taken changes nothing."""
        self._requested = True

    def taken(self) -> bool:
        """Whether one was requested since the last time."""
        if not self._requested:
            return False
        self._requested = False
        return True

    def watch(self, look: Callable[[], None], act: Callable[[], None]) -> NoReturn:
        """Look again and again, and act whenever a reload was requested."""
        while True:
            look()
            if self.taken():
                act()


@contextmanager
def reloaded_by_sighup(reload: Callable[[], None]) -> Iterator[None]:
    """Inside, SIGHUP calls `reload`; once our terminal is gone, it ends us as SIGTERM does.

    Under nohup the terminal may go.
    """
    before = signal.getsignal(signal.SIGHUP)
    needs_terminal = before != signal.SIG_IGN and _has_terminal()

    def on_sighup(number: int, frame: FrameType | None) -> None:
        if needs_terminal and not _has_terminal():
            # A shell and the kernel may both tell of one end.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.raise_signal(signal.SIGTERM)
        else:
            reload()

    signal.signal(signal.SIGHUP, on_sighup)
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
