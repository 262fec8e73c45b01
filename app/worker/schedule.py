"""The schedule: which refits are due now, and a pause after what failed."""

from collections.abc import Callable
from dataclasses import dataclass

from app.settings import Settings
from app.storage.versions import Versions
from app.worker.atlas_shelf import AtlasShelf
from app.worker.hours import SECONDS, closed_hours, due_between, due_refits

_RETRY_SECONDS = 60.0


@dataclass(slots=True)
class Schedule:
    """Refits by the wall clock; in event time only jobs refit, so nothing is ever due."""

    settings: Settings
    versions: Versions
    shelf: AtlasShelf
    now: Callable[[], float]
    _not_before: float = 0.0
    _reached: float = 0.0

    def due(self) -> list[float]:
        """Moments to refit as of, oldest first: whole hours, a window of them at most, and of the
        moments between them the newest only."""
        now = self.now()
        hour, between = self._newest(now)
        newest = between or float(hour * SECONDS)
        if self.settings.clock == "event" or now < self._not_before or newest <= self._reached:
            return []
        last = self._last_as_of()
        hours = due_refits(last, hour, self.settings.window_hours)
        due = [float(missed * SECONDS) for missed in hours]
        if between is not None and (last is None or last < between):
            due.append(between)
        if not due:
            self._reached = newest
        return due

    def _newest(self, now: float) -> tuple[int, float | None]:
        """The newest whole hour whose refit is due, and the newest moment after it.

        The wait for late events must not outlast the pause between refits.
        """
        pause = self.settings.refit_minutes * 60.0
        hour = closed_hours(now - min(self.settings.refit_delay_seconds, pause))
        return hour, due_between(hour, now, self.settings.refit_minutes)

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
