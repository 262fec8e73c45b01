"""Predictions beside what happened, and which hours of a log are evaluated."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import CommandError
from app.settings import Settings
from calibrators.registry import POOLED
from calibrators.samples import Floats
from evaluation import EventTable, grouped_cal_n, scorecard


@dataclass(frozen=True, slots=True, eq=False)
class ScoredEvents:
    """Events and, by name, the probability that each of them was given, (n,).

    An event that stands for several counts as so many.
    """

    events: EventTable
    predictions: Mapping[str, Floats]

    def scorecards(self) -> dict[str, dict[str, float]]:
        """One scorecard for every name."""
        events = self.events
        return {
            name: scorecard(
                probabilities, events.outcomes, events.rows, sample_weight=events.weights
            )
            for name, probabilities in self.predictions.items()
        }

    def share_left_out(self) -> float:
        """Share of the events in campaigns with too few positives to count in GC-3."""
        first, events = next(iter(self.predictions.values())), self.events
        return grouped_cal_n(
            first, events.outcomes, events.rows, 3, sample_weight=events.weights
        ).share_left_out


RAW = "raw"


def first_evaluated_hour(events: EventTable, window_hours: int) -> int:
    """The first hour after the first window; a `CommandError` when the log ends before it."""
    first, last = int(events.hours.min()), int(events.hours.max())
    if last < first + window_hours:
        raise CommandError(
            f"the log spans {last - first + 1} h, so a window of {window_hours} h leaves no hour to"
            f" evaluate: give a shorter one, such as --window {max(1, (last - first + 1) // 3)}h"
        )
    return first + window_hours


def after(window_hours: int) -> str:
    """How hours are evaluated, for a table's title."""
    return f"each hour evaluated with maps of the {window_hours} h before it"


def learnt_hours(settings: Settings, calibrator: str) -> int:
    """How many hours before the moment the maps of a service learn from, at most."""
    return settings.history_hours if calibrator == POOLED else settings.window_hours
