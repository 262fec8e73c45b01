"""Room for connections: each is an open file, and a process may have only so many."""

import logging
import resource
from typing import Final

from app.settings import variable_of

# Redis, the log, the listening socket, the loop's own, and files that are open for a moment.
OTHER_FILES: Final = 128

_log = logging.getLogger(__name__)


def connections_that_fit(wanted: int) -> int:
    """How many connections of those wanted the process may open, at its highest limit of files.

    Raises the soft limit to the hard one, and logs a warning where that does not do.
    """
    files = _raised_limit()
    room = max(1, files - OTHER_FILES)
    if room >= wanted:
        return wanted
    _log.warning(
        "%s = %d: only %d connections fit, because this process may have %d open files at most; "
        "raise the hard limit (ulimit -Hn, LimitNOFILE) or lower the setting",
        variable_of("max_connections"),
        wanted,
        room,
        files,
    )
    return room


def _raised_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems say that there is no limit and then do not grant it.
            hard = soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
