"""Logs of scored impressions in files: Parquet, CSV and TSV, plain or compressed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from app.command_line.errors import CommandError
from app.command_line.log_column import LogColumn
from app.command_line.log_times import epoch_seconds
from app.command_line.table_files import read_table
from evaluation import EventTable


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


def read_log(path: Path, columns: LogColumns) -> EventTable:
    """The events of a log; a `CommandError` names file, row, column, value and rule."""

    def choose(names: Sequence[str]) -> list[str]:
        _require(path, names, columns)
        return columns.present(names)

    return _events(path.name, read_table(path, choose, _types(columns)), columns)


def _types(columns: LogColumns) -> dict[str, Any]:
    return {
        columns.time: pa.string(),
        columns.campaign: pa.string(),
        columns.score: pa.float64(),
        columns.outcome: pa.float64(),
        columns.bid: pa.float64(),
    }


def _require(path: Path, names: Sequence[str], columns: LogColumns) -> None:
    for what, name in columns.required.items():
        if name not in names:
            raise CommandError(
                f"{path.name} has no column {name!r}: name the {what} column with --{what}."
                f" It has: {', '.join(names)}"
            )
        if names.count(name) > 1:
            raise CommandError(f"{path.name} has {names.count(name)} columns named {name!r}")


def _events(file: str, table: Any, columns: LogColumns) -> EventTable:
    def column(name: str) -> LogColumn:
        return LogColumn(file, name, table.column(name))

    campaigns, rows = column(columns.campaign).categories("a campaign must have a name")
    has_bids = columns.bid in table.column_names
    bids = (
        column(columns.bid).within(0, np.inf, "a bid is a number from 0 up") if has_bids else None
    )
    return EventTable(
        times=epoch_seconds(column(columns.time)),
        campaigns=campaigns,
        rows=rows,
        scores=column(columns.score).within(0, 1, "a score must be a number in [0, 1]"),
        outcomes=column(columns.outcome).within(0, 1, "an outcome must be a number in [0, 1]"),
        bids=bids,
    )
