"""From how many bytes on the work on a body is done in a thread, and not on the event loop.

That is some ten milliseconds of work; of events in binary columns thirty at the worst, when each of
them is refused in words. With less, handing it over costs others more than it saves them.
"""

from typing import Final

LARGE: Final = 256 * 1024
LARGE_DENSE: Final = 32 * 1024
"""For events in binary columns."""

SLICED: Final = 4 * 1024
"""From so many bytes on, other requests have a turn between the steps of the work on a body."""
