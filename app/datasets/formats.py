"""Batches of rows of one file: Parquet, text with delimiters, or JSON lines."""

import re
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
from app.strict_json import in_json_words

BATCH_ROWS = 1 << 19
BLOCK_BYTES = 1 << 23
MOST_LINE_BYTES = 1 << 26
_NAMING_LINES = 1_000
_SHOWN, _LARGEST_BLOCK = 32, 1 << 30
_JSON_RULE = "a line is one JSON object; what is read of it are numbers, texts and truth values"

Columns = Mapping[str, Any]
BadLine = Callable[[int, str, str], None]
"""Called with how many rows of the file are read before a line that is left out, what a user is
told of it, and the rule it breaks."""


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
    """What is guessed of the first lines holds for all of them."""
    lines, header, types, read = _BadLines(part.name, wanted.bad_line), b"", wanted.types, 0
    blocks = _blocks(part, wanted.block_bytes or BLOCK_BYTES)
    if wanted.block_bytes is None:
        blocks = iter([(b"".join(block for block, _ in blocks), 1.0)])
    for block, done in blocks:
        try:
            table = _table(part, header + block, wanted.chosen, types, lines)
        except pa.ArrowInvalid:
            # As text from here on, so that an error can name the row and the value.
            types = dict.fromkeys(wanted.chosen, pa.string())
            table = _table(part, header + block, wanted.chosen, types, lines)
        yield _columns(table), done
        types = dict(zip(table.schema.names, table.schema.types, strict=True))
        read += len(table)
        lines.before = read + lines.skipped
        header = header or _lines_pattern(part, b"")(block.lstrip(b"\r\n"))[0]


@dataclass(slots=True)
class _BadLines:
    """The rows of one file that do not have as many values as there are columns.

    before : rows, skipped ones too, in front of those at hand; Arrow counts the names as one.
    last : the last that was told of: rows are read again where they are read as text.
    skipped : how many were told of.
    """

    file: str
    told: BadLine | None
    before: int = 0
    last: int = 0
    skipped: int = 0

    def __call__(self, line: Any) -> str:
        row = self.before + line.number - 1
        if self.told is not None and row > self.last:
            where = f"{self.file}, row {row}: {line.actual_columns} values"
            self.told(row - 1 - self.skipped, where, f"a line has {line.expected_columns} values")
            self.last, self.skipped = row, self.skipped + 1
        return "error" if self.told is None else "skip"


def _table(
    part: LogPart, block: bytes, chosen: Sequence[str], types: Mapping[str, Any], lines: _BadLines
) -> Any:
    # One thread knows which row is wrong.
    read = pyarrow.csv.ReadOptions(block_size=min(len(block), _LARGEST_BLOCK), use_threads=False)
    parse = pyarrow.csv.ParseOptions(
        delimiter=part.format.delimiter, newlines_in_values=True, invalid_row_handler=lines
    )
    # Texts that are no UTF-8 are refused row by row, as those of Parquet are.
    conversion = pyarrow.csv.ConvertOptions(
        include_columns=[*chosen], column_types=dict(types), null_values=[""], check_utf8=False
    )
    try:
        return pyarrow.csv.read_csv(pa.BufferReader(block), read, parse, conversion)
    except pa.ArrowInvalid as error:
        names = _text_names(part)
        said = re.sub(r"In CSV column #(\d+)", lambda n: f"column {names[int(n[1])]!r}", str(error))
        said = re.sub(r"Row #(\d+)", lambda n: f"row {lines.before + int(n[1]) - 1}", said)
        raise pa.ArrowInvalid(said) from None


def _json_names(part: LogPart) -> list[str]:
    """The names in the first lines, in the order in which they come up."""
    lines = (line for block, _ in _blocks(part, BLOCK_BYTES) for line in block.split(b"\n"))
    names: dict[str, None] = {}
    for line in islice(lines, _NAMING_LINES):
        try:
            names |= dict.fromkeys(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Reading the rows says which it is.
            continue
    if not names:
        raise CommandError(f"{part.name}: no line is a JSON object with a name; {_JSON_RULE}")
    return [*names]


def _json(part: LogPart, wanted: Wanted) -> Iterator[tuple[Columns, float]]:
    """Typed decoding skips what is not read."""
    fields = [(f"c{place}", _JSON_VALUE, None) for place in range(len(wanted.chosen))]
    named = {f"c{place}": name for place, name in enumerate(wanted.chosen)}
    decoder = msgspec.json.Decoder(msgspec.defstruct("Row", fields, rename=named))
    before = read = 0
    for block, done in _blocks(part, wanted.block_bytes or BLOCK_BYTES):
        held: list[Any] = []
        for number, line in enumerate(block.split(b"\n"), before + 1):
            if line.strip():
                try:
                    held.append(decoder.decode(line))
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    where = f"{part.name}, line {number}: {in_json_words(error)}"
                    if wanted.bad_line is None:
                        raise CommandError(f"{where}; {_JSON_RULE}") from error
                    wanted.bad_line(read + len(held), where, _JSON_RULE)
        before, read = before + block.count(b"\n"), read + len(held)
        if held:
            yield _arrays(held, wanted.chosen), done


_JSON_VALUE = int | float | str | bool | None


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


_LINE = rb'(?:[^"\r\n]++|(?<![%b\r\n])"|"[^"]*+(?:""[^"]*+)*+"(?=[%b\r\n]))*+[\r\n]'
"""Of a text. A quote amid a value that does not begin with one is a letter like others."""
_QUOTE_RULE = 'a value in quotes ends with its closing quote, and has "" for a quote inside of it'


def _lines_pattern(part: LogPart, repeated: bytes) -> Any:
    mark = re.escape(part.format.delimiter.encode())
    return re.compile(b"(?:%b)%b" % (_LINE % (mark, mark), repeated)).match


def _blocks(part: LogPart, size: int) -> Iterator[tuple[bytes, float]]:
    """Whole lines of a file, about `size` bytes at a time, and the share of it that has been read.

    A `CommandError` names a line of a text with a misplaced quote: Arrow would take what follows,
    other lines too, for a part of the value.
    """
    is_text = part.format.kind == "text"
    lines_of, ends = _lines_pattern(part, b"*+"), (b"\n", b"\r") if is_text else (b"\n",)
    found, line, block = b"\n", 1, b"\n"
    with part.opened() as (raw, text):
        while block:
            block = text.read(size)
            found += block.removeprefix(BOM_UTF8) or b"\n"
            quoted = is_text and b'"' in found
            end = lines_of(found, 1).end() if quoted else 1 + max(map(found.rfind, ends))
            line += found.count(b"\n", 1, end)
            if len(found) - end > MOST_LINE_BYTES or (end < len(found) and not block):
                rule = _QUOTE_RULE if quoted else f"a line has up to {MOST_LINE_BYTES:,} bytes"
                start = found[end : end + _SHOWN].decode(errors="replace")
                raise CommandError(f"{part.name}, line {line}: {start!r}…; {rule}")
            if end > 1:
                yield found[1:end], raw.tell() / max(1, part.size)
            found = found[end - 1 :]
