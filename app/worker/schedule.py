"""When to refit (hourly) and to train (daily), and how long to leave alone what failed."""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from math import floor, inf
from typing import NamedTuple

from app.settings import SECONDS_PER_DAY, SECONDS_PER_HOUR, Settings
from app.storage.keys import closed_hours
from app.storage.models import Models
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache
from app.worker.model_cache import ModelCache

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 60.0
_REMEMBERED = 1000


class _Pause(NamedTuple):
    """From a moment on; over, too, when the clock shows an earlier one."""

    since: float = 0.0
    seconds: float = 0.0

    def lasts(self, now: float) -> bool:
        return 0.0 <= now - self.since < self.seconds


_NONE = _Pause()


def due_refits(last_as_of: float | None, newest: int, window_hours: int) -> list[int]:
    """The hours up to the newest whose refit is missing, oldest first, a window of them at most.

    An hour h stands for the refit as of its start, h * 3600. Before the first refit only the
    newest is due: there is nothing to catch up with.
    """
    if last_as_of is None:
        return [newest]
    first = max(closed_hours(last_as_of) + 1, newest - window_hours + 1)
    return list(range(first, newest + 1))


def due_between(newest_hour: int, now: float, minutes: int) -> float | None:
    """The moment of the newest refit that is due between whole hours, every so many minutes.

    None while the newest is that of a whole hour, or of an hour whose own refit is not due yet:
    maps must not go back to what was known before.
    """
    step = minutes * 60
    newest = floor(now / step) * step
    return float(newest) if newest_hour < newest / SECONDS_PER_HOUR < newest_hour + 1 else None


@dataclass(slots=True)
class Schedule:
    """Refits by the wall clock; in event time only jobs refit, so nothing is ever due.

    A clock that goes back has no hour published twice. One that was ahead and is right again, as it
    was at the start by the `monotonic` clock, has the hours published anew that had not been yet.
    """

    settings: Settings
    versions: Versions
    cache: AtlasCache
    now: Callable[[], float]
    frozen: Callable[[], Collection[str]] = tuple
    monotonic: Callable[[], float] = time.monotonic
    _pause: _Pause = _NONE
    _reached: float = 0.0
    _published: dict[float, float] = field(default_factory=dict)
    _first_offset: float | None = None

    def due(self) -> list[float]:
        """Moments to refit as of, oldest first: whole hours, a window of them at most, and of the
        moments between them the newest only."""
        now = self.now()
        hour, between = self._newest(now)
        newest = between or float(hour * SECONDS_PER_HOUR)
        if self.settings.clock == "event" or self._pause.lasts(now) or newest == self._reached:
            return []
        first, last = self._fitted()
        if (held := self.versions.held_as_of()) is not None:
            # It is done, whatever becomes of it.
            first, last = max(held, first), max(held, last or 0.0)
        if (
            last is not None
            and last > now
            and not self._was_published(float(hour * SECONDS_PER_HOUR))
        ):
            # Maps are not to stay until the clock is there again.
            last = None
        hours = due_refits(last, hour, self.settings.window_hours)
        if not hours and first < hour * SECONDS_PER_HOUR:
            # What is behind does not take the others back to the hours that they have.
            hours = [hour]
        due = [float(missed * SECONDS_PER_HOUR) for missed in hours]
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
        self._pause = _Pause(self.now(), _RETRY_SECONDS)

    def done(self, as_of: float) -> None:
        """It was published."""
        self._published[as_of] = self._offset()
        if len(self._published) > _REMEMBERED:
            del self._published[next(iter(self._published))]

    def _was_published(self, as_of: float) -> bool:
        """Whether it was, by a clock that was not ahead."""
        right = max(self._offset(), self._first_offset or 0.0) + _RETRY_SECONDS
        return self._published.get(as_of, inf) <= right

    def _offset(self) -> float:
        offset = self.now() - self.monotonic()
        if self._first_offset is None:
            self._first_offset = offset
        return offset

    def _fitted(self) -> tuple[float, float | None]:
        """The first moment as of which a target was fitted, and the last as of which anything was;
        that is None where some never was. Frozen ones do not count, for no refit fits them."""
        version = self.versions.current()
        in_force = self.cache.take(version) if version else None
        if in_force is None:
            return 0.0, None
        chosen = set(self.settings.targets).difference(self.frozen())
        fitted = [in_force.targets.get(target, {}).get("fitted_as_of") for target in chosen]
        if None in fitted:
            return 0.0, None
        return min(fitted, default=in_force.as_of), in_force.as_of


_LONGEST_RETRY_SECONDS = 3600.0
_MOST_CRASHES = 3


@dataclass(slots=True)
class TrainingSchedule:
    """Trainings as of midnight (UTC) by the wall clock; in event time only jobs train.

    Missed midnights are made up for by the newest. A training that fails is tried again after
    pauses that grow to an hour. One that takes the worker down with it is tried three times, and
    then left to the next midnight: it must not keep the hourly refits from happening.
    """

    settings: Settings
    models: Models
    cache: ModelCache
    now: Callable[[], float]
    _reached: dict[str, float] = field(default_factory=dict)
    _pause: _Pause = _NONE
    _failures: int = 0

    def due(self) -> Iterator[tuple[str, float]]:
        """Delayed targets, each with the moment to train it as of."""
        now = self.now()
        days = floor((now - self.settings.refit_delay_seconds) / SECONDS_PER_DAY)
        midnight = float(days * SECONDS_PER_DAY)
        if self.settings.clock == "event" or self._pause.lasts(now):
            return
        for target in self.settings.delayed_targets:
            if not self._is_done(target, midnight) and self._may_begin(target, midnight):
                yield target, midnight

    def done(self, target: str, as_of: float) -> None:
        """Nothing is due for the target before the next midnight."""
        # Where there was too little to learn from, other workers begin it again: none died of it.
        self.models.forget_attempts(target, as_of)
        self._reach(target, as_of)

    def interrupted(self, target: str, as_of: float) -> None:
        """It is begun again, and nobody has died of it."""
        self.models.forget_attempts(target, as_of)

    def failed(self, target: str, as_of: float) -> None:
        """Leave failing trainings alone for a while."""
        self.interrupted(target, as_of)
        pause = min(_RETRY_SECONDS * 2**self._failures, _LONGEST_RETRY_SECONDS)
        self._pause = _Pause(self.now(), pause)
        self._failures += 1

    def _is_done(self, target: str, midnight: float) -> bool:
        if self._reached.get(target, 0.0) >= midnight:
            return True
        last = self.cache.last_as_of(target, self.settings.attribution_seconds(target))
        if last is not None and last >= midnight:
            self._reach(target, midnight)
            return True
        return False

    def _may_begin(self, target: str, midnight: float) -> bool:
        if self.models.attempt(target, midnight) <= _MOST_CRASHES:
            return True
        _log.error("training %s as of %.0f is given up: begun, but never ended", target, midnight)
        self._reach(target, midnight)
        return False

    def _reach(self, target: str, as_of: float) -> None:
        self._reached[target] = as_of
        self._failures = 0
