"""What a report tells of a window's scores, gathered while a refit reads the same bins."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from app.worker.judging import Judgement, TopCampaigns
from calibrators import BinsTable


@dataclass(frozen=True, slots=True)
class RawScores:
    """Quality of the scores, and the top campaigns; tables have no campaign in common."""

    top: TopCampaigns
    quality: Judgement = field(default_factory=Judgement)

    @classmethod
    def of(cls, tables: Iterable[BinsTable], count: int) -> Self:
        """Of a window's tables."""
        found = cls(TopCampaigns(count))
        for table in tables:
            found.add(table)
        return found

    def add(self, table: BinsTable) -> None:
        """Take in a table."""
        self.quality.add(table)
        self.top.add(table)


@dataclass(slots=True)
class RawWindow:
    """The window of a report: its hours, how many top campaigns are told, and what was `found`
    when all of its bins had gone by, if they did."""

    hours: range
    count: int
    found: RawScores | None = None

    @classmethod
    def none(cls) -> Self:
        """Of a report that needs none."""
        return cls(range(0), 0)

    @property
    def is_awaited(self) -> bool:
        """Whether the bins of its hours are worth looking at."""
        return bool(self.hours) and self.found is None

    def begin(self) -> RawScores:
        """What to add the tables to as they go by."""
        return RawScores(TopCampaigns(self.count))
