"""Batches of rows of one file: Parquet, text with delimiters, or JSON lines."""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from app.datasets.parts import LogPart
from app.errors import CommandError

BATCH_ROWS = 1 << 19
BLOCK_BYTES = 1 << 23
MOST_LINE_BYTES = 1 << 26
_NAMING_LINES = 1_000
_JSON_RULE = "a line is one JSON object; what is read of it are numbers, texts and truth values"

Columns = Mapping[str, Any]
BadLine = Callable[[str, str], None]
"""Called with the name of a line and what is wrong with it; raises where lines may not be
skipped."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read of each part of a log.

    chosen : the columns.
    types : Arrow types of columns of text files; the others are guessed.
    words : columns whose values repeat: Parquet keeps them as a dictionary.
    bad_line : where lines are skipped that cannot be taken apart; None where they are errors.
    rows, block_bytes : batches of Parquet have up to `rows` rows, those of other files about
        `block_bytes` bytes; None is the whole file.
    """

    chosen: Sequence[str]
    types: Mapping[str, Any]
    words: Sequence[str] = ()
    bad_line: BadLine | None = None
    rows: int = BATCH_ROWS
    block_bytes: int | None = BLOCK_BYTES


def names_of(part: LogPart) -> list[str]:
    """The columns of a file."""
    if part.format.kind == "parquet":
        with part.opened() as (raw, _):
            return [*pyarrow.parquet.read_schema(raw).names]
    return _text_names(part) if part.format.kind == "text" else _json_names(part)


def batches_of(part: LogPart, wanted: Wanted) -> Iterator[tuple[Columns, float]]:
    """The chosen columns in batches, and the share of the file that has been read."""
    readers = {"parquet": _parquet, "text": _text, "json": _json}
    return readers[part.format.kind](part, wanted)


def _parquet(part: LogPart, wanted: Wanted) -> Iterator[tuple[Columns, float]]:
    with part.opened() as (raw, _):
        schema = pyarrow.parquet.read_schema(raw)
        words = [n for n in wanted.words if n in wanted.chosen and is_text(schema.field(n).type)]
        # Without a buffer for whole row groups: a file may be one row group.
        file = pyarrow.parquet.ParquetFile(raw, read_dictionary=words, pre_buffer=False)
        total, read = file.metadata.num_rows, 0
        for batch in file.iter_batches(wanted.rows, columns=[*wanted.chosen]):
            read += len(batch)
            yield _columns(batch), read / total


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _columns(batch: Any) -> Columns:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _text_names(part: LogPart) -> list[str]:
    """The names in the first line."""
    # One thread knows which row is wrong.
    read = pyarrow.csv.ReadOptions(use_threads=False)
    # Lines of another length are told of when the rows are read.
    parse = pyarrow.csv.ParseOptions(
        delimiter=part.format.delimiter, invalid_row_handler=lambda _: "skip"
    )
    try:
        with part.opened() as (_, text), pyarrow.csv.open_csv(text, read, parse) as reader:
            return [*reader.schema.names]
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("the names of its columns are no UTF-8") from None


def _text(part: LogPart, wanted: Wanted) -> Iterator[tuple[Columns, float]]:
    rows = 0
    lines = _BadLines(part.name, wanted.bad_line)
    try:
        for columns, done in _stream(part, wanted, lines, wanted.types):
            yield columns, done
            rows += _length(columns)
    except pa.ArrowInvalid:
        # As text from here on, so that an error can name the row and the value.
        words = dict.fromkeys(wanted.chosen, pa.string())
        yield from _after(rows, _stream(part, wanted, lines, words, threads=False))


@dataclass(slots=True)
class _BadLines:
    """The lines of one file that do not have as many values as there are columns."""

    file: str
    told: BadLine | None
    last: int = 0

    def __call__(self, line: Any) -> str:
        if self.told is None:
            return "error"
        # A file is read again from its start when it is read as text.
        if line.number > self.last:
            self.last = line.number
            rule = f"a line has {line.expected_columns} values"
            self.told(f"{self.file}, line {line.number}: {line.actual_columns} values", rule)
        return "skip"


def _stream(
    part: LogPart,
    wanted: Wanted,
    lines: _BadLines,
    types: Mapping[str, Any],
    *,
    threads: bool = True,
) -> Iterator[tuple[Columns, float]]:
    parse = pyarrow.csv.ParseOptions(delimiter=part.format.delimiter)
    if lines.told is not None:
        parse.invalid_row_handler = lines
        threads = False
    conversion = pyarrow.csv.ConvertOptions(
        include_columns=[*wanted.chosen], column_types=dict(types), null_values=[""]
    )
    read = pyarrow.csv.ReadOptions(block_size=wanted.block_bytes, use_threads=threads)
    with part.opened() as (raw, text):
        if wanted.block_bytes is None:
            # Types are guessed from all of the rows.
            yield _columns(pyarrow.csv.read_csv(text, read, parse, conversion)), 1.0
            return
        with pyarrow.csv.open_csv(text, read, parse, conversion) as reader:
            for batch in reader:
                yield _columns(batch), raw.tell() / max(1, part.size)


def _after(rows: int, batches: Iterator[tuple[Columns, float]]) -> Iterator[tuple[Columns, float]]:
    """What the batches have behind so many rows."""
    for columns, done in batches:
        skipped = min(rows, _length(columns))
        rows -= skipped
        if skipped < _length(columns):
            yield {name: column.slice(skipped) for name, column in columns.items()}, done


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _json_names(part: LogPart) -> list[str]:
    """The names in the first lines, in the order in which they come up."""
    lines = (line for line, _ in islice(_lines(part, BLOCK_BYTES), _NAMING_LINES))
    names: dict[str, None] = {}
    for line in lines:
        try:
            names |= dict.fromkeys(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Reading the rows says which it is.
            continue
    return [*names]


def _json(part: LogPart, wanted: Wanted) -> Iterator[tuple[Columns, float]]:
    """Typed decoding skips what is not read."""
    fields = [(f"c{place}", _JSON_VALUE, None) for place in range(len(wanted.chosen))]
    named = {f"c{place}": name for place, name in enumerate(wanted.chosen)}
    decoder = msgspec.json.Decoder(msgspec.defstruct("Row", fields, rename=named))
    number, size = 0, wanted.block_bytes or BLOCK_BYTES
    held: list[Any] = []
    waiting = 0
    for line, done in _lines(part, size):
        number += 1
        if not line.strip():
            continue
        try:
            held.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _refuse_line(part, wanted, number, error)
        waiting += len(line)
        if waiting >= size:
            yield _arrays(held, wanted.chosen), done
            held, waiting = [], 0
    if held:
        yield _arrays(held, wanted.chosen), 1.0


_JSON_VALUE = int | float | str | bool | None


def _refuse_line(part: LogPart, wanted: Wanted, number: int, error: Exception) -> None:
    where = f"{part.name}, line {number}: {error}"
    if wanted.bad_line is None:
        raise CommandError(f"{where}; {_JSON_RULE}") from error
    wanted.bad_line(where, _JSON_RULE)


def _arrays(rows: Sequence[Any], names: Sequence[str]) -> Columns:
    return {name: _array([getattr(r, f"c{i}") for r in rows]) for i, name in enumerate(names)}


def _array(values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else _word(value) for value in values])


def _word(value: Any) -> str:
    """A value as text, as another batch of the same values has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _lines(part: LogPart, size: int) -> Iterator[tuple[bytes, float]]:
    """The lines of a file, and the share of it that has been read."""
    with part.opened() as (raw, text):
        rest, mark = b"", BOM_UTF8
        while block := text.read(size):
            *lines, rest = (rest + block.removeprefix(mark)).split(b"\n")
            mark = b""
            if len(rest) > MOST_LINE_BYTES:
                raise CommandError(f"{part.name}: a line is longer than {MOST_LINE_BYTES:,} bytes")
            done = raw.tell() / max(1, part.size)
            yield from ((line, done) for line in lines)
        if rest:
            yield rest, 1.0
