"""Tables in files: Parquet, CSV and TSV, plain or compressed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from app.command_line.errors import CommandError

_COMPRESSED = {".gz", ".bz2", ".zst"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = {".parquet", ".pq"}

Choose = Callable[[Sequence[str]], Sequence[str]]
"""The columns to read from a file with columns so named; raises `CommandError` when one is
missing."""


def read_table(path: Path, choose: Choose, types: Mapping[str, Any]) -> Any:
    """The chosen columns as an Arrow table of at least one row; a `CommandError` names the file.

    `types` are the Arrow types of columns of text files; the others are guessed.
    """
    if not path.is_file():
        raise CommandError(f"{path}: there is no such file")
    try:
        table = _read(path, choose, types)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        raise CommandError(f"{path}: {_first_line(error)}") from error
    if not table.num_rows:
        raise CommandError(f"{path}: the log has no rows")
    return table


def _read(path: Path, choose: Choose, types: Mapping[str, Any]) -> Any:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PARQUET:
        return _read_parquet(path, choose)
    kind = suffixes[-2:-1] if suffixes and suffixes[-1] in _COMPRESSED else suffixes[-1:]
    if not kind or kind[0] not in _DELIMITERS:
        raise CommandError(
            f"{path}: a log's name ends in .parquet, .csv or .tsv"
            " (.gz, .bz2 or .zst may follow .csv and .tsv)"
        )
    return _read_text(path, _DELIMITERS[kind[0]], choose, types)


def _read_parquet(path: Path, choose: Choose) -> Any:
    with pyarrow.parquet.ParquetFile(path) as file:
        return file.read([*choose(file.schema_arrow.names)])


def _read_text(path: Path, delimiter: str, choose: Choose, types: Mapping[str, Any]) -> Any:
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    with pyarrow.csv.open_csv(path, parse_options=parse) as reader:
        names = reader.schema.names
    chosen = [*choose(names)]
    try:
        return _parse(path, parse, chosen, types)
    except pa.ArrowInvalid:
        # As text, so that the error can name the row and the value.
        return _parse(path, parse, chosen, dict.fromkeys(names, pa.string()))


def _parse(path: Path, parse: Any, chosen: list[str], types: Mapping[str, Any]) -> Any:
    convert = pyarrow.csv.ConvertOptions(
        include_columns=chosen, column_types=dict(types), null_values=[""]
    )
    return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
