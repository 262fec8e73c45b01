"""The one moment by which a call must be over, whatever it waits for on the way."""

import time
from typing import Final

_SHORTEST: Final = 0.001


class Deadline:
    """A moment so many seconds from now, by the monotonic clock."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then; negative afterwards."""
        return self._end - time.monotonic()


class RemainingTime(dict[str, float]):
    """Timeouts in httpx's form, each told when it is asked for: what is left until the deadline.

    To connect, to write and to read may each take what is left, and not each the whole.
    """

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def get(self, _: str, default: object = None) -> float:
        """Seconds left; never 0, which would mean: do not wait at all."""
        return max(self._deadline.left, _SHORTEST)
