"""Logs of scored impressions in files: Parquet, CSV and TSV, plain or compressed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from app.command_line.errors import CommandError
from app.command_line.log_column import LogColumn
from app.command_line.log_times import epoch_seconds
from app.command_line.table_files import Choose, read_table
from evaluation import EventTable

SCORE_RULE = "a score must be a number in [0, 1]"
OUTCOME_RULE = "an outcome must be a number in [0, 1]"
CAMPAIGN_RULE = "a campaign must have a name"
BID_RULE = "a bid is a number from 0 up"
LARGEST_BID = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Which column of the log holds what; `bid` is read where the log has one."""

    score: str = "score"
    outcome: str = "outcome"
    campaign: str = "campaign"
    time: str = "time"
    bid: str = "bid"

    @property
    def required(self) -> dict[str, str]:
        """What -> the column that must be there."""
        return {
            "score": self.score,
            "outcome": self.outcome,
            "campaign": self.campaign,
            "time": self.time,
        }

    def present(self, names: Sequence[str]) -> list[str]:
        """The columns to read from a log with columns `names`."""
        return [
            *dict.fromkeys(name for name in (*self.required.values(), self.bid) if name in names)
        ]

    def chooser(self, path: Path) -> Choose:
        """What says which columns of the log at `path` to read, and refuses it when one is
        missing."""

        def choose(names: Sequence[str]) -> list[str]:
            require_columns(path, names, self.required)
            return self.present(names)

        return choose

    @property
    def types(self) -> dict[str, Any]:
        """Arrow types of the columns of text files."""
        return {
            self.time: pa.string(),
            self.campaign: pa.string(),
            self.score: pa.float64(),
            self.outcome: pa.float64(),
            self.bid: pa.float64(),
        }


def read_log(path: Path, columns: LogColumns) -> EventTable:
    """The events of a log; a `CommandError` names file, row, column, value and rule."""
    table = read_table(path, columns.chooser(path), columns.types)
    return events_of(path.name, table, columns)


def events_of(file: str, table: Any, columns: LogColumns, first: int = 0) -> EventTable:
    """The events of an Arrow table, which begins with row `first` of the file."""

    def column(name: str) -> LogColumn:
        return LogColumn(file, name, table.column(name), first=first)

    campaigns, rows = column(columns.campaign).categories(CAMPAIGN_RULE)
    has_bids = columns.bid in table.column_names
    bids = column(columns.bid).within(0, LARGEST_BID, BID_RULE) if has_bids else None
    return EventTable(
        times=epoch_seconds(column(columns.time)),
        campaigns=campaigns,
        rows=rows,
        scores=column(columns.score).within(0, 1, SCORE_RULE),
        outcomes=column(columns.outcome).truths().within(0, 1, OUTCOME_RULE),
        bids=bids,
    )


def require_columns(path: Path, names: Sequence[str], required: Mapping[str, str]) -> None:
    """A `CommandError` unless a log with columns `names` has each that is required once.

    `required` is what -> column, where --what is the option that names it.
    """
    for what, name in required.items():
        require_column(path.name, names, what, name)


def require_column(file: str, names: Sequence[str], what: str, name: str) -> None:
    """Refuse a file without a column `name`, or with two; the option --`what` names it."""
    if name not in names:
        raise CommandError(
            f"{file} has no column {name!r}: name the {what} column with --{what}."
            f" It has: {', '.join(names)}"
        )
    if names.count(name) > 1:
        raise CommandError(f"{file} has {names.count(name)} columns named {name!r}")
