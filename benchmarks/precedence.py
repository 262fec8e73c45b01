"""Which processes come first on a core that they share with others."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def first_in_line(*process_ids: int) -> Iterator[bool]:
    """Of these, the main threads run before all else on their core: the first before the second,
    and so on. Gives whether the system permits it; then they are as before when it ends.
    """
    raised: list[int] = []
    with suppress(PermissionError):
        for priority, process_id in enumerate(reversed(process_ids), start=1):
            place = os.sched_param(priority)
            os.sched_setscheduler(process_id, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, place)
            raised.append(process_id)
    try:
        yield len(raised) == len(process_ids)
    finally:
        for process_id in raised:
            os.sched_setscheduler(process_id, os.SCHED_OTHER, os.sched_param(0))
