"""Logs in files read batch by batch, so that their length does not matter."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from app.command_line.log_column import is_text
from app.command_line.table_files import (
    Choose,
    compression_of,
    delimiter_of,
    errors_named,
    text_columns,
    text_conversion,
)

BATCH_ROWS = 1 << 19
BLOCK_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Some rows of a file.

    Attributes
    ----------
    first : rows of the file before them.
    rows : how many they are, at least 1.
    columns : the chosen columns as Arrow read them, by name.
    done : share of the file that has been read, from 0 to 1.
    """

    first: int
    rows: int
    columns: Mapping[str, Any]
    done: float

    @classmethod
    def of(cls, first: int, batch: Any, done: float) -> Self:
        """A batch of Arrow."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return cls(first, len(batch), columns, min(done, 1.0))


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log and how its columns are to be read.

    Attributes
    ----------
    path : Parquet, CSV or TSV; .gz, .bz2 or .zst may follow the latter.
    choose : the columns to read.
    types : Arrow types of columns of text files; the others are guessed.
    words : columns whose values repeat: Parquet keeps them as a dictionary.
    """

    path: Path
    choose: Choose
    types: Mapping[str, Any]
    words: Sequence[str] = ()

    def batches(self, rows: int = BATCH_ROWS, block_bytes: int = BLOCK_BYTES) -> Iterator[RawBatch]:
        """All rows in order; a `CommandError` names the file when it cannot be read.

        Batches of Parquet have up to `rows` rows, those of text files about `block_bytes` bytes.
        """
        with errors_named(self.path):
            delimiter = delimiter_of(self.path)
            if delimiter is None:
                yield from self._parquet(rows)
            else:
                yield from self._text(delimiter, block_bytes)

    def _parquet(self, rows: int) -> Iterator[RawBatch]:
        schema = pyarrow.parquet.read_schema(self.path)
        chosen = [*self.choose(schema.names)]
        words = [name for name in self.words if name in chosen and is_text(schema.field(name).type)]
        # Without a buffer for whole row groups: a file may be one row group.
        with pyarrow.parquet.ParquetFile(
            self.path, read_dictionary=words, pre_buffer=False
        ) as file:
            total, first = file.metadata.num_rows, 0
            for batch in file.iter_batches(rows, columns=chosen):
                yield RawBatch.of(first, batch, (first + len(batch)) / total)
                first += len(batch)

    def _text(self, delimiter: str, block_bytes: int) -> Iterator[RawBatch]:
        parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
        names = text_columns(self.path, parse)
        chosen = self.choose(names)
        first = 0
        try:
            for batch in self._stream(parse, chosen, self.types, block_bytes):
                yield batch
                first = batch.first + batch.rows
        except pa.ArrowInvalid:
            # As text from here on, so that an error can name the row and the value.
            words = dict.fromkeys(names, pa.string())
            yield from _after(first, self._stream(parse, chosen, words, block_bytes, threads=False))

    def _stream(
        self,
        parse: Any,
        chosen: Sequence[str],
        types: Mapping[str, Any],
        block_bytes: int,
        *,
        threads: bool = True,
    ) -> Iterator[RawBatch]:
        read = pyarrow.csv.ReadOptions(block_size=block_bytes, use_threads=threads)
        conversion = text_conversion(chosen, types)
        size = max(1, self.path.stat().st_size)
        first = 0
        with (
            _opened(self.path) as (raw, unpacked),
            pyarrow.csv.open_csv(unpacked, read, parse, conversion) as reader,
        ):
            for batch in reader:
                yield RawBatch.of(first, batch, raw.tell() / size)
                first += len(batch)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The bytes of a file as they are, and what they unpack to."""
    packed = compression_of(path)
    with pa.OSFile(str(path)) as raw:
        yield raw, raw if packed is None else pa.CompressedInputStream(raw, packed)


def _after(first: int, batches: Iterator[RawBatch]) -> Iterator[RawBatch]:
    """The rows of the batches from row `first` on."""
    for batch in batches:
        skipped = min(max(first - batch.first, 0), batch.rows)
        if skipped < batch.rows:
            columns = {name: column.slice(skipped) for name, column in batch.columns.items()}
            yield RawBatch(batch.first + skipped, batch.rows - skipped, columns, batch.done)
