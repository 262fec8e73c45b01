"""Tables in files: Parquet, CSV and TSV, plain or compressed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from app.command_line.errors import CommandError

_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = {".parquet", ".pq"}

Choose = Callable[[Sequence[str]], Sequence[str]]
"""The columns to read from a file with columns so named; raises `CommandError` when one is
missing."""


def read_table(path: Path, choose: Choose, types: Mapping[str, Any]) -> Any:
    """The chosen columns as an Arrow table of at least one row; a `CommandError` names the file.

    `types` are the Arrow types of columns of text files; the others are guessed.
    """
    with errors_named(path):
        table = _read(path, choose, types)
    if not table.num_rows:
        raise no_rows(path)
    return table


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Inside, a file that is not there or cannot be read is a `CommandError` that names it."""
    if not path.is_file():
        raise CommandError(f"{path}: there is no such file")
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or first_line(error)}") from error
    except pa.ArrowInvalid as error:
        raise CommandError(f"{path}: {first_line(error)}") from error


def no_rows(path: Path) -> CommandError:
    """The error of a log without a row."""
    return CommandError(f"{path}: the log has no rows")


def delimiter_of(path: Path) -> str | None:
    """What separates the columns of a text file; None for Parquet. Its name tells."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PARQUET:
        return None
    kind = suffixes[-2:-1] if suffixes and suffixes[-1] in _COMPRESSED else suffixes[-1:]
    if not kind or kind[0] not in _DELIMITERS:
        raise CommandError(
            f"{path}: a log's name ends in .parquet, .csv or .tsv"
            " (.gz, .bz2 or .zst may follow .csv and .tsv)"
        )
    return _DELIMITERS[kind[0]]


def compression_of(path: Path) -> str | None:
    """How a text file is packed; its name tells."""
    return _COMPRESSED.get(path.suffix.lower())


def text_columns(path: Path, parse: Any) -> list[str]:
    """The names in the first line of a text file."""
    # One thread knows which row is wrong.
    read = pyarrow.csv.ReadOptions(use_threads=False)
    with pyarrow.csv.open_csv(path, read_options=read, parse_options=parse) as reader:
        return [*reader.schema.names]


def text_conversion(chosen: Sequence[str], types: Mapping[str, Any]) -> Any:
    """How the chosen columns of a text file are converted; an empty number is null."""
    return pyarrow.csv.ConvertOptions(
        include_columns=[*chosen], column_types=dict(types), null_values=[""]
    )


def _read(path: Path, choose: Choose, types: Mapping[str, Any]) -> Any:
    delimiter = delimiter_of(path)
    if delimiter is None:
        return _read_parquet(path, choose)
    return _read_text(path, delimiter, choose, types)


def _read_parquet(path: Path, choose: Choose) -> Any:
    with pyarrow.parquet.ParquetFile(path) as file:
        return file.read([*choose(file.schema_arrow.names)])


def _read_text(path: Path, delimiter: str, choose: Choose, types: Mapping[str, Any]) -> Any:
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    names = text_columns(path, parse)
    chosen = choose(names)
    try:
        return _parse(path, parse, chosen, types)
    except pa.ArrowInvalid:
        # As text, so that the error can name the row and the value.
        return _parse(path, parse, chosen, dict.fromkeys(names, pa.string()))


def _parse(path: Path, parse: Any, chosen: Sequence[str], types: Mapping[str, Any]) -> Any:
    conversion = text_conversion(chosen, types)
    return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=conversion)


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).partition("\n")[0]
