"""Where the work on a body is done: at once if it is small, off the event loop if it is not."""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool

P = ParamSpec("P")
T = TypeVar("T")

# Some ten milliseconds of work, and of events in binary columns thirty at the worst, when each of
# them is refused in words. Less than that, and handing it over costs others more than it saves.
LARGE: Final = 256 * 1024
LARGE_DENSE: Final = 32 * 1024


async def work_on(is_large: bool, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The result of the work, which takes time in proportion to a body."""
    if is_large:
        return await run_in_threadpool(work, *arguments, **named)
    return work(*arguments, **named)
