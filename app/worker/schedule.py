"""The hourly schedule: what is due now, and a pause after what failed."""

from collections.abc import Callable
from dataclasses import dataclass

from app.settings import Settings
from app.storage.versions import Versions
from app.worker.atlas_shelf import AtlasShelf
from app.worker.hours import SECONDS, closed_hours, due_refits

_RETRY_SECONDS = 60.0


@dataclass(slots=True)
class Schedule:
    """Refits by the wall clock; in event time only jobs refit, so nothing is ever due."""

    settings: Settings
    versions: Versions
    shelf: AtlasShelf
    now: Callable[[], float]
    _not_before: float = 0.0
    _reached: int = 0

    def due(self) -> list[float]:
        """Moments to refit as of, oldest first."""
        now = self.now()
        newest = closed_hours(now - self.settings.refit_delay_seconds)
        if self.settings.clock == "event" or now < self._not_before or newest <= self._reached:
            return []
        hours = due_refits(self._last_as_of(), newest, self.settings.window_hours)
        if not hours:
            self._reached = newest
        return [float(hour * SECONDS) for hour in hours]

    def failed(self) -> None:
        """Leave a failing refit alone for a minute."""
        self._not_before = self.now() + _RETRY_SECONDS

    def _last_as_of(self) -> float | None:
        """The last moment as of which every target was fitted; None before the first."""
        version = self.versions.current()
        in_force = self.shelf.take(version) if version else None
        reports = in_force.targets if in_force else {}
        fitted = [reports.get(target, {}).get("fitted_as_of") for target in self.settings.targets]
        known = [as_of for as_of in fitted if as_of is not None]
        return min(known) if len(known) == len(fitted) else None
