"""How many connections are open, and how many were closed for what, in the process's row."""

from typing import Final

from app.api.closing_reasons import Reason
from app.api.metrics import Metrics

_ONE: Final = 1.0


class ConnectionCounts:
    """Of the process that `metrics` counts for; to be called on the event loop's thread only."""

    def __init__(self, metrics: Metrics) -> None:
        self._row = metrics.row
        self._open, self._closed = metrics.slots.connections, metrics.slots.closed
        # Connections do not outlive their process, but its row does.
        self._row[self._open] = 0.0

    def opened(self) -> None:
        """A connection was taken."""
        self._row[self._open] += _ONE

    def lost(self) -> None:
        """A connection that was taken is gone, by whoever's will."""
        self._row[self._open] -= _ONE

    def ended(self, reason: Reason) -> None:
        """A connection was ended, or not taken, for the reason."""
        self._row[self._closed[reason]] += _ONE
