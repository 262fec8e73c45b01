"""How a command tells its user that it cannot go on.

Also the command as it was typed, for the foot of a report.
"""

import re
import shlex
import sys
from collections.abc import Callable

# A / of the password may not be written as %2F.
_LOGIN = re.compile(r"(?<=://)(?:[^/?@:]*:[^?]*|[^/?@]*)@")
BAD_INPUT = 2
FAILED = 1


class CommandError(Exception):
    """One sentence that says what is wrong and what to do; the command ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_code = exit_code


Advance = Callable[[str], None]


def typed_command() -> str:
    """`sirocco` and its arguments, ready to be typed again, without what URLs have of logins."""
    return shlex.join(["sirocco", *(_LOGIN.sub("", word) for word in sys.argv[1:])])
