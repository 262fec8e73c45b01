"""What has threads, locks or sockets begins anew in a forked child.

A child has a copy of the parent's memory but none of its threads; a lock that another thread held
at that moment stays locked for ever, and on a shared socket both would read each other's answers.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Can begin anew in a child process."""

    def begin_anew(self) -> None:
        """Replace what must not be shared with the parent."""


_forkables: WeakSet[Forkable] = WeakSet()


def begins_anew_after_fork(forkable: Forkable) -> None:
    """From now on `begin_anew` is called in every child."""
    _forkables.add(forkable)


def _after_fork() -> None:
    for forkable in list(_forkables):
        forkable.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
