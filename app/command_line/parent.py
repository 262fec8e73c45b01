"""A child process ends when the process that started it is gone, however that one ended."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Ask Linux for SIGTERM at the end of process `parent`; elsewhere only its own stop ends us.

    The second look covers a parent that was gone before the request was made.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)
