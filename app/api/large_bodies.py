"""Where the work on a body is done: at once if it is small, off the event loop if it is not."""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool

P = ParamSpec("P")
T = TypeVar("T")

# Some ten milliseconds of work: less than that, and handing it over costs others more than it saves
# them, for a thread keeps the interpreter for five milliseconds at a time.
_LARGE_BYTES: Final = 256 * 1024


async def work_on(body: bytes, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The result of the work, which takes time in proportion to the body."""
    if len(body) < _LARGE_BYTES:
        return work(*arguments, **named)
    return await run_in_threadpool(work, *arguments, **named)
