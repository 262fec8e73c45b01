"""Logs of scored impressions in files: Parquet, CSV and TSV, plain or compressed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from app.command_line.errors import CommandError
from app.command_line.log_column import LogColumn
from app.command_line.log_times import epoch_seconds
from evaluation import EventTable

_COMPRESSED = {".gz", ".bz2", ".zst"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = {".parquet", ".pq"}


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
    if not path.is_file():
        raise CommandError(f"{path}: there is no such file")
    try:
        table = _read(path, columns)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        raise CommandError(f"{path}: {_first_line(error)}") from error
    if not table.num_rows:
        raise CommandError(f"{path}: the log has no rows")
    return _events(path.name, table, columns)


def _read(path: Path, columns: LogColumns) -> Any:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PARQUET:
        return _read_parquet(path, columns)
    kind = suffixes[-2:-1] if suffixes and suffixes[-1] in _COMPRESSED else suffixes[-1:]
    if not kind or kind[0] not in _DELIMITERS:
        raise CommandError(
            f"{path}: a log's name ends in .parquet, .csv or .tsv"
            " (.gz, .bz2 or .zst may follow .csv and .tsv)"
        )
    return _read_text(path, _DELIMITERS[kind[0]], columns)


def _read_parquet(path: Path, columns: LogColumns) -> Any:
    with pyarrow.parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        _require(path, names, columns)
        return file.read(columns.present(names))


def _read_text(path: Path, delimiter: str, columns: LogColumns) -> Any:
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    with pyarrow.csv.open_csv(path, parse_options=parse) as reader:
        names = reader.schema.names
    _require(path, names, columns)
    try:
        return _parse(path, parse, columns, names, _types(columns))
    except pa.ArrowInvalid:
        # As text, so that the error can name the row and the value.
        texts = dict.fromkeys(names, pa.string())
        return _parse(path, parse, columns, names, texts)


def _parse(
    path: Path, parse: Any, columns: LogColumns, names: Sequence[str], types: dict[str, Any]
) -> Any:
    convert = pyarrow.csv.ConvertOptions(
        include_columns=columns.present(names), column_types=types, null_values=[""]
    )
    return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)


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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
