"""Which times events may carry now, by the clock that the settings choose."""

import time

from app.api.resources import Resources
from app.events.open_times import OpenTimes


def open_times(resources: Resources) -> OpenTimes:
    """Open by the wall clock, or since the last refit where events tell the time."""
    if resources.settings.clock == "event":
        return OpenTimes.since(resources.refresher.current.as_of, resources.settings)
    return OpenTimes.at(time.time(), resources.settings)
