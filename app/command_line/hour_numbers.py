"""The hours of a log, numbered as they come up."""

import numpy as np
from numpy.typing import NDArray

from evaluation.event_table import SECONDS_PER_HOUR

Codes = NDArray[np.int32]


class HourNumbers:
    """The distinct hours so far; number i is the epoch hour `hours[i]`."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    @property
    def hours(self) -> list[int]:
        """Hours since 1970 by number."""
        return list(self._numbers)

    def codes(self, times: NDArray[np.float64]) -> Codes:
        """The hour of every time, (n,), epoch seconds between two that are a century apart."""
        hours = (times / SECONDS_PER_HOUR).astype(np.int64)
        first = int(hours.min(initial=0 if not len(hours) else hours[0]))
        hours -= first
        held = np.flatnonzero(np.bincount(hours))
        table = np.zeros(int(hours.max(initial=0)) + 1, np.int32)
        table[held] = [
            self._numbers.setdefault(first + hour, len(self._numbers)) for hour in held.tolist()
        ]
        return table[hours]
