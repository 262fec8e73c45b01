"""How many requests a key may make: a bucket of tokens, and the header fields that tell."""

from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import Final

_WINDOW_SECONDS: Final = 1.0


class RateLimit:
    """At most `quota` requests in a second, of one key in this process; refilled all the time."""

    def __init__(self, quota: int, clock: Callable[[], float] = monotonic) -> None:
        self.quota = quota
        self._clock = clock
        self._left, self._at = float(quota), clock()

    def take(self) -> bool:
        """Whether one more request may be answered now."""
        now = self._clock()
        refilled = self._left + (now - self._at) * self.quota / _WINDOW_SECONDS
        self._left, self._at = min(float(self.quota), refilled), now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def headers(self) -> dict[str, str]:
        """As draft-ietf-httpapi-ratelimit-headers has them: `q` requests in `w` seconds, of which
        `r` are left until all are back in `t` seconds."""
        missing = (self.quota - self._left) * _WINDOW_SECONDS / self.quota
        return {
            "RateLimit-Policy": f'"key";q={self.quota};w={_WINDOW_SECONDS:.0f}',
            "RateLimit": f'"key";r={int(self._left)};t={ceil(missing)}',
        }
