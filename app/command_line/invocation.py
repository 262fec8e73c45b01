"""The command as it was typed."""

import shlex
import sys


def invocation() -> str:
    """`sirocco` and its arguments, ready to be typed again."""
    return shlex.join(["sirocco", *sys.argv[1:]])
