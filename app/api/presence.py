"""What the process says of itself to the others, so that each can answer for all of them."""

import gc
import os
from collections.abc import Iterator
from itertools import chain
from typing import Final

from app.api.place import Place
from app.api.refresher import Refresher
from app.api.slots import COLLECTED, Slots
from app.api.worker_records import Record, WorkerRecords


class Presence:
    """Of the process at `place` and its row; `serving` says whether it takes requests now."""

    def __init__(
        self, place: Place, refresher: Refresher, slots: Slots, row: "memoryview[float]"
    ) -> None:
        self.serving = False
        self._place = place
        self._refresher = refresher
        self._row = row
        self._connections = slots.connections
        self._carried: Final = (slots.refused_versions, *slots.garbage.values())
        # What those before us in this row came to.
        self._before = [self._row[at] for at in self._carried]

    @property
    def records(self) -> WorkerRecords:
        """What all processes said of themselves."""
        return self._place.records

    @property
    def is_alone(self) -> bool:
        """Whether the process has no parent that starts others beside it."""
        return self._place.file is None

    @property
    def may_serve(self) -> bool:
        """Whether to take requests: not without a version while others have one to serve."""
        return self._refresher.store_seen or not self._place.others_serve

    def tell(self) -> None:
        """Say how things stand now."""
        snapshot = self._refresher.current
        connections = int(self._row[self._connections])
        standing = (os.getpid(), connections, self.serving, self._refresher.store_up)
        record = Record(*standing, snapshot.published_at, snapshot.version)
        self.records.write(self._place.row, record)
        for at, before, now in zip(self._carried, self._before, self._counted(), strict=True):
            self._row[at] = before + now

    def _counted(self) -> Iterator[int]:
        collected = gc.get_stats()
        by_kind = ([stats[kind] for stats in collected] for kind in COLLECTED)
        return chain([self._refresher.refused_versions], *by_kind)
