"""Closing: what Redis has gathered of clicks and conversions moves into the click log.

Every step is write, then remove, so that a worker that dies in between repeats it; the click log
counts a repeated click or conversion once.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.click_log import ClickLog, ClosedClick
from app.settings import Settings
from app.storage.conversion_log import Conversion, ConversionHour, ConversionLog, ReadMark
from app.storage.open_clicks import OpenClick, OpenClicks
from app.storage.versions import Versions
from app.worker.atlas_shelf import AtlasShelf, Shelved
from app.worker.hours import closed_hours
from calibrators import Atlas

CLICKS_AT_ONCE = 20_000
"""Bounds the worker's memory, and the rows of a part."""

CONVERSIONS_AT_ONCE = 100_000


@dataclass(slots=True)
class Closing:
    """Closes what is due; time comes in with every call."""

    settings: Settings
    clicks: OpenClicks
    conversions: ConversionLog
    versions: Versions
    shelf: AtlasShelf

    def run(self, log: ClickLog, before: float, now: float) -> int:
        """Close the clicks that are due at `before` (of the events' clock), hand over the
        conversions, forget behaviours that waited for long enough at `now` (of the wall).

        Returns how many clicks were closed.
        """
        closed = 0
        while due := self.clicks.begin_close(before, CLICKS_AT_ONCE):
            log.write_clicks(self._closed(due))
            closed += self.clicks.finish_close(due, {})
        self._hand_over_conversions(log)
        self.clicks.expire_waiting(now)
        return closed

    def _hand_over_conversions(self, log: ClickLog) -> None:
        # All logs together: a part for each would be hundreds of tiny files an hour.
        while read := list(self._read_conversions()):
            conversions = [conversion for _, _, found in read for conversion in found]
            if conversions:
                log.write_conversions(conversions)
            for pending, mark, _ in read:
                self.conversions.drop(pending, mark)

    def _read_conversions(self) -> Iterator[tuple[ConversionHour, ReadMark, list[Conversion]]]:
        """The heads of the logs that hold anything, until there are enough for one write."""
        conversions = 0
        for pending in self.conversions.pending():
            mark, found = self.conversions.read(pending)
            if mark.blocks:
                yield pending, mark, found
            conversions += len(found)
            if conversions >= CONVERSIONS_AT_ONCE:
                return

    def _closed(self, due: Sequence[OpenClick]) -> list[ClosedClick]:
        history = self.versions.history()
        by_hour = defaultdict(list)
        for click in due:
            by_hour[closed_hours(click.clicked_at)].append(click)
        seconds, kept = self.settings.post_click_seconds, self.settings.versions_kept
        return [
            ClosedClick.close(click, seconds, probabilities)
            for hour, clicks in sorted(by_hour.items())
            for click, probabilities in zip(
                clicks, served(clicks, self.shelf.serving(hour, history, kept)), strict=True
            )
        ]


def served(clicks: Sequence[OpenClick], in_force: Shelved | None) -> list[dict[str, float]]:
    """What the atlases in force made of each click's scores, by target.

    Empty where nobody knows any more what was in force.
    """
    probabilities: list[dict[str, float]] = [{} for _ in clicks]
    if in_force is None:
        return probabilities
    for target in sorted({target for click in clicks for target in click.scores}):
        places = [place for place, click in enumerate(clicks) if target in click.scores]
        atlas = in_force.atlases.get(target, Atlas.empty())
        campaigns = [clicks[place].campaign for place in places]
        scores = [clicks[place].scores[target] for place in places]
        for place, probability in zip(places, atlas(campaigns, scores).tolist(), strict=True):
            probabilities[place][target] = probability
    return probabilities
