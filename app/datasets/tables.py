"""Tables in files (Parquet, CSV and TSV, plain or compressed), and their columns as numbers, names
and times; every error names file, row, column, value and rule.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from app.datasets.epoch_times import EARLIEST, LATEST, epoch_seconds_of, out_of_range
from app.errors import CommandError

_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = {".parquet", ".pq"}
_WRITTEN = ".parquet"

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


def require_columns(file: str, names: Sequence[str], required: Mapping[str, str]) -> None:
    """A `CommandError` unless a file with columns `names` has each that is required once.

    `required` is what -> column, where --what is the option that names it.
    """
    for what, name in required.items():
        if name not in names:
            raise CommandError(
                f"{file} has no column {name!r}: name the {what} column with --{what}."
                f" It has: {', '.join(names)}"
            )
        require_once(file, names, name)


def require_once(file: str, names: Sequence[str], name: str) -> None:
    """A `CommandError` where a file has several columns of a name."""
    if names.count(name) > 1:
        raise CommandError(f"{file} has {names.count(name)} columns named {name!r}")


def require_parquet(path: Path, what: str) -> None:
    """A `CommandError` unless the name of the file is one of Parquet."""
    if path.suffix.lower() != _WRITTEN:
        raise CommandError(f"{path}: {what} is Parquet, its name ends in {_WRITTEN}")


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


_SHOWN = 64


@dataclass(frozen=True, slots=True)
class LogColumn:
    """The values of column `name` of the log `file`, as Arrow read them.

    `places` are the rows they stand in, (n,); None where they follow one another from row `first`.
    """

    file: str
    name: str
    values: Any
    places: NDArray[np.int64] | None = None
    first: int = 0

    def refuse(self, row: int, value: object, rule: str) -> NoReturn:
        """Raise the error of one row (counted from 0 here, from 1 for the reader)."""
        shown = repr(value) if isinstance(value, str) else str(value)
        if len(shown) > _SHOWN:
            shown = f"{shown[: _SHOWN - 1]}…"
        place = self.first + row if self.places is None else int(self.places[row])
        raise CommandError(f"{self.file}, row {place + 1}: {self.name} = {shown}; {rule}")

    def require_all(self, rule: str) -> None:
        """Refuse the first empty value."""
        if self.values.null_count:
            empty = np.asarray(pc.is_null(self.values, nan_is_null=False))
            self.refuse(int(np.argmax(empty)), "", rule)

    def known(self) -> "LogColumn":
        """The values that are neither empty nor nan."""
        known = pc.invert(pc.is_null(self.values, nan_is_null=True))
        places = self.first + np.flatnonzero(np.asarray(known))
        return LogColumn(self.file, self.name, self.values.filter(known), places)

    def plain(self) -> "LogColumn":
        """The same values, each of them written out where the file has a dictionary."""
        if not pa.types.is_dictionary(self.values.type):
            return self
        return replace(self, values=pc.cast(self.values, self.values.type.value_type))

    def truths(self) -> "LogColumn":
        """The same values with the texts true and false as 1 and 0."""
        column = self.plain()
        if not is_text(column.values.type):
            return column
        words = pc.utf8_lower(pc.utf8_trim_whitespace(column.values))
        numbers = pc.if_else(pc.equal(words, "false"), "0", column.values)
        return replace(column, values=pc.if_else(pc.equal(words, "true"), "1", numbers))

    def numbers(self, rule: str) -> NDArray[np.float64]:
        """Every value as float64, (n,); `rule` says what the column must hold."""
        self.require_all(rule)
        try:
            return np.asarray(pc.cast(self.values, pa.float64()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return np.array([self._number(row, rule) for row in range(len(self.values))])

    def within(self, low: float, high: float, rule: str) -> NDArray[np.float64]:
        """Every value as float64 in [low, high], (n,); NaN is refused too."""
        numbers = self.numbers(rule)
        outside = ~((numbers >= low) & (numbers <= high))
        if outside.any():
            row = int(np.argmax(outside))
            self.refuse(row, self.values[row].as_py(), rule)
        return numbers

    def categories(self, rule: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The distinct values as sorted names (c,) and, for every row (n,), which one it holds."""
        self.require_all(rule)
        encoded = pc.cast(self.values, pa.string()).combine_chunks().dictionary_encode()
        found = encoded.dictionary.to_pylist()
        names = sorted(found)
        ranks = {name: rank for rank, name in enumerate(names)}
        rows = np.array([ranks[name] for name in found], dtype=np.int32)[
            np.asarray(encoded.indices)
        ]
        if "" in ranks:
            self.refuse(int(np.argmin(rows)), "", rule)
        return tuple(names), rows

    def _number(self, row: int, rule: str) -> float:
        value = self.values[row].as_py()
        try:
            return float(value)
        except (TypeError, ValueError):
            self.refuse(row, value, rule)


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


_RULE = "a time is a timestamp, RFC 3339 text (without a zone: UTC) or seconds since 1970"


def epoch_seconds(column: LogColumn) -> NDArray[np.float64]:
    """Seconds since 1970, (n,), from the year 2000 to 2100."""
    column = column.plain()
    column.require_all(_RULE)
    times = _times(column)
    outside = ~((times >= EARLIEST) & (times < LATEST))
    if outside.any():
        row = int(np.argmax(outside))
        column.refuse(row, column.values[row].as_py(), out_of_range(float(times[row])))
    return times


def _times(column: LogColumn) -> NDArray[np.float64]:
    if pa.types.is_temporal(column.values.type):
        return _from_timestamps(column)
    return _from_text(column) if is_text(column.values.type) else column.numbers(_RULE)


def _from_timestamps(column: LogColumn) -> NDArray[np.float64]:
    try:
        return _seconds(pc.cast(column.values, pa.timestamp("us"), safe=False))
    except pa.ArrowNotImplementedError as error:
        raise CommandError(
            f"{column.file}: column {column.name!r} holds {column.values.type}; {_RULE}"
        ) from error


def _from_text(column: LogColumn) -> NDArray[np.float64]:
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return _seconds(pc.cast(column.values, kind))
        except pa.ArrowInvalid:
            continue
    try:
        return np.asarray(pc.cast(column.values, pa.float64()))
    except pa.ArrowInvalid:
        # Of several forms, or with blanks around.
        return np.array([_one(column, row) for row in range(len(column.values))])


def _one(column: LogColumn, row: int) -> float:
    text = column.values[row].as_py().strip()
    try:
        return epoch_seconds_of(text)
    except ValueError:
        column.refuse(row, text, _RULE)


def _seconds(timestamps: Any) -> NDArray[np.float64]:
    seconds: NDArray[np.float64] = np.asarray(pc.cast(timestamps, pa.int64())) / 1e6
    return seconds
