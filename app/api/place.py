"""Where a process counts: alone, or in its row of a file that API processes share."""

from dataclasses import dataclass
from typing import Self

from app.api.slots import Slots
from app.api.tallies import Tallies
from app.api.worker_records import WorkerRecords, size_of


@dataclass(frozen=True, slots=True)
class Place:
    """The row that only this process writes; `file` holds all rows, None for a lone process."""

    records: WorkerRecords
    row: int = 0
    file: int | None = None

    @classmethod
    def alone(cls) -> Self:
        """Of a process that shares nothing."""
        return cls(WorkerRecords.alone())

    @classmethod
    def shared(cls, file: int, rows: int, row: int) -> Self:
        """Of one of several processes."""
        return cls(WorkerRecords.shared(file, rows), row, file)

    def tallies(self, slots: Slots) -> Tallies:
        """The counts of all processes; raises SlotsDiffer."""
        if self.file is None:
            return Tallies.alone(slots)
        return Tallies.shared(self.file, size_of(self.records.rows), self.records.rows, slots)

    @property
    def others_serve(self) -> bool:
        """Whether another process takes requests now, with a version or the certainty of none."""
        return any(record.serving for row, record in self.records.live() if row != self.row)
