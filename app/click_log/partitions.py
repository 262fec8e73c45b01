"""Where the rows of one hour are kept: <dataset>/date=YYYY-MM-DD/hour=HH, in UTC."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

CLICKS = "clicks"
CONVERSIONS = "conversions"
DATASETS = (CLICKS, CONVERSIONS)
QUARANTINE = "quarantine"

SECONDS = 3600
_HOURS = 24
_PATH = re.compile(r"(\w+)/date=(\d{4}-\d{2}-\d{2})/hour=([01]\d|2[0-3])(?:/|$)")


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """The rows of one dataset whose time is in [hour * 3600, (hour + 1) * 3600)."""

    dataset: str
    hour: int

    @classmethod
    def at(cls, dataset: str, seconds: float) -> Self:
        """The partition of a moment."""
        return cls(dataset, math.floor(seconds / SECONDS))

    @classmethod
    def of_path(cls, path: str) -> Self | None:
        """The partition that a path, below the root or the quarantine, leads into; None of none."""
        found = _PATH.match(path.removeprefix(f"{QUARANTINE}/"))
        if found is None or found[1] not in DATASETS:
            return None
        try:
            day = datetime.strptime(found[2], "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            return None
        return cls(found[1], int(day.timestamp()) // SECONDS + int(found[3]))

    @property
    def path(self) -> str:
        """Its folder below the root."""
        return f"{self.date_path}/hour={self.hour % _HOURS:02d}"

    @property
    def date_path(self) -> str:
        """The folder of its day below the root."""
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=self.hour)
        return f"{self.dataset}/date={day:%Y-%m-%d}"

    @property
    def begins(self) -> float:
        """Its first second."""
        return float(self.hour * SECONDS)

    @property
    def ends(self) -> float:
        """The second behind its last."""
        return float((self.hour + 1) * SECONDS)

    @property
    def day_ends(self) -> float:
        """The second behind the last of its day."""
        return float((self.hour // _HOURS + 1) * _HOURS * SECONDS)


def partitions_between(dataset: str, first: float, behind: float) -> list[Partition]:
    """The partitions that hold times in [first, behind), oldest first."""
    hours = range(math.floor(first / SECONDS), math.ceil(behind / SECONDS))
    return [Partition(dataset, hour) for hour in hours]
