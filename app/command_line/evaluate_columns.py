"""Which columns `sirocco evaluate` reads, and which of them a log may lack."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from app.command_line.log_files import LogColumns, require_column

_DEFAULTS = LogColumns()


@dataclass(frozen=True, slots=True)
class EvaluateColumns:
    """The columns by what they hold.

    Attributes
    ----------
    log : score and outcome, which must be there; campaign, time and bid, which a log may lack
        unless the user has named them.
    by : further columns to cut the log by.
    group : what GAUC and gcsAUC average over; None is the campaign.
    placement, mainline : the column and its value whose rows are the mainline.
    """

    log: LogColumns
    by: Sequence[str] = ()
    group: str | None = None
    placement: str | None = None
    mainline: str | None = None

    def present(self, file: str, names: Sequence[str]) -> "PresentColumns":
        """What a file with columns `names` has of them; a `CommandError` when one is missing."""
        found = {what: name for what, name in self._optional.items() if name in names}
        for what, name in {**self._needed, **found}.items():
            require_column(file, names, what, name)
        for name in self.by:
            require_column(file, names, "by", name)
        return PresentColumns(self, found.get("campaign"), found.get("time"), found.get("bid"))

    @property
    def words(self) -> list[str]:
        """The columns whose values are names."""
        words = (self.log.campaign, *self.by, self.group, self.placement)
        return [*dict.fromkeys(name for name in words if name is not None)]

    @property
    def types(self) -> dict[str, Any]:
        """Arrow types of the columns of text files."""
        numbers = dict.fromkeys((self.log.score, self.log.outcome, self.log.bid), pa.float64())
        return {**dict.fromkeys((self.log.time, *self.words), pa.string()), **numbers}

    @property
    def _optional(self) -> dict[str, str]:
        return {"campaign": self.log.campaign, "time": self.log.time, "bid": self.log.bid}

    @property
    def _needed(self) -> dict[str, str]:
        needed = {"score": self.log.score, "outcome": self.log.outcome}
        asked = {"group": self.group, "placement": self.placement}
        for what, name in self._optional.items():
            asked[what] = name if name != getattr(_DEFAULTS, what) else None
        return needed | {what: name for what, name in asked.items() if name is not None}


@dataclass(frozen=True, slots=True)
class PresentColumns:
    """The columns that a log has; None for what it lacks."""

    columns: EvaluateColumns
    campaign: str | None
    time: str | None
    bid: str | None

    @property
    def chosen(self) -> list[str]:
        """The columns to read."""
        asked = self.columns
        names = (
            asked.log.score, asked.log.outcome, self.campaign, self.time, self.bid, *asked.by,
            asked.group, asked.placement,
        )  # fmt: skip
        return [*dict.fromkeys(name for name in names if name is not None)]

    @property
    def group(self) -> str | None:
        """What GAUC and gcsAUC average over."""
        return self.columns.group or self.campaign

    def notes(self, file: str) -> list[str]:
        """What the log lacks and what that leaves out."""
        missing = {
            "campaign": (self.campaign, "nothing by campaign, no GC-N"),
            "time": (self.time, "nothing by hour"),
            "bid": (self.bid, "no ROPR, no csAUC"),
        }
        return [
            f"{file} has no column {getattr(self.columns.log, what)!r}: {lost}."
            for what, (name, lost) in missing.items()
            if name is None
        ]
