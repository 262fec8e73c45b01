"""Which hours of a log are judged: those with a whole window before them."""

from collections.abc import Sequence

import numpy as np

from app.command_line.errors import CommandError
from app.command_line.judged import Floats, Judged
from app.command_line.playback import Hour, Playback
from app.command_line.progress import Advance
from app.settings import Settings
from calibrators.methods import POOLED
from evaluation import EventTable

RAW = "raw"


def first_judged_hour(events: EventTable, window_hours: int) -> int:
    """The first hour after the first window; a `CommandError` when the log ends before it."""
    first, last = int(events.hours.min()), int(events.hours.max())
    if last < first + window_hours:
        raise CommandError(
            f"the log spans {last - first + 1} h, so a window of {window_hours} h leaves no hour to"
            f" judge: give a shorter one, such as --window {max(1, (last - first + 1) // 3)}h"
        )
    return first + window_hours


def after(window_hours: int) -> str:
    """How hours are judged, for a table's title."""
    return f"each hour judged by maps of the {window_hours} h before it"


def learnt_hours(settings: Settings, calibrator: str) -> int:
    """How many hours before the moment the maps of a service learn from, at most."""
    return settings.history_hours if calibrator == POOLED else settings.window_hours


def play_and_judge(
    playback: Playback, hours: Sequence[Hour], first: int, name: str, advance: Advance
) -> Judged:
    """Play every hour; from hour `first` on, judge the scores and the probabilities, called `name`,
    that the service gave them."""
    events: list[EventTable] = []
    served: list[Floats] = []
    for hour, probabilities in playback.play(hours):
        if hour.number >= first:
            events.append(hour.events)
            served.append(probabilities)
        advance(_so_far(events, served))
    played = EventTable.concatenate(events)
    return Judged(played, {RAW: played.scores, name: np.concatenate(served)})


def _so_far(events: Sequence[EventTable], served: Sequence[Floats]) -> str:
    clicks = sum(float(table.outcomes.sum()) for table in events)
    if not clicks:
        return "the first window fills"
    before = sum(float(table.scores.sum()) for table in events) / clicks
    after = sum(float(probabilities.sum()) for probabilities in served) / clicks
    return f"PCOC so far: {before:.2f} raw, {after:.2f} calibrated"
