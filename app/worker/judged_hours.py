"""Judging: closed hours binned by the probabilities that served them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.settings import Settings
from app.storage.bins_store import BinsStore
from app.worker.atlas_shelf import AtlasShelf
from calibrators import Atlas

# An hour is judged when it closes and once more an hour later, when its late clicks are in.
_JUDGED_HOURS = 2


@dataclass(frozen=True, slots=True)
class JudgedHours:
    """Hours of immediate targets, each judged by maps fitted on hours before it; `history` are
    the manifests of the versions kept, newest first."""

    settings: Settings
    bins: BinsStore
    shelf: AtlasShelf
    history: Sequence[Mapping[str, Any]]

    def judge(self, closed: int, again: bool) -> None:
        """Judge what was not judged of the window that ends with the hours below `closed`; the
        newest hours `again`."""
        first = closed - self.settings.window_hours
        for target in self.settings.targets:
            settled = closed - _JUDGED_HOURS if again else closed
            judged = self.bins.judged_hours(target, first, settled)
            for hour in sorted(set(range(first, closed)) - judged):
                in_force = self.shelf.serving(hour, self.history, self.settings.versions_kept)
                if in_force is not None:
                    self._judge(target, hour, in_force.atlases.get(target, Atlas.empty()))

    def _judge(self, target: str, hour: int, in_force: Atlas) -> None:
        served = self.bins.shards_of_hour(target, hour)
        self.bins.write_judged(target, hour, (table.calibrated(in_force) for table in served))
