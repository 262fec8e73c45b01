"""One reader for every log: parts in order, batches of rows, and bad rows refused or skipped."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from app.datasets.formats import BATCH_ROWS, BLOCK_BYTES, Wanted, batches_of, names_of
from app.datasets.options import Reading
from app.datasets.parts import LogPart, Where, errors_named, parts_of, shown
from app.datasets.tables import BadRows, LogRows, PartRows
from app.errors import CommandError

_OTHER_DELIMITERS = ";|\t,"
_WRITTEN = ".parquet"
T = TypeVar("T")

Choose = Callable[[str, Sequence[str]], Sequence[str]]
"""The columns to read from a file, by its name, with columns so named; raises `CommandError` when
one is missing."""


@dataclass(frozen=True, slots=True)
class LogReader:
    """A log and how it is to be read.

    where : a file, a folder, a pattern or a URL.
    choose : the columns to read; all parts must have those of the first.
    types : Arrow types of columns of text files; the others are guessed.
    words : columns whose values repeat: Parquet keeps them as a dictionary.
    weights : the column that says as how many a row counts, if there is one.
    """

    where: Where
    choose: Choose
    types: Mapping[str, Any]
    words: Sequence[str] = ()
    reading: Reading = field(default_factory=Reading)
    weights: str | None = None

    def parsed(
        self,
        parse: Callable[[LogRows], T | None],
        rows: int = BATCH_ROWS,
        block_bytes: int = BLOCK_BYTES,
        *,
        may_be_empty: bool = False,
    ) -> Iterator[tuple[T, LogRows]]:
        """What `parse` makes of each batch, and the rows of it that were not skipped; where it
        gives None, no row counts.

        A `CommandError` names file, row, column, value and rule of the first wrong row, or a log
        without rows, unless it may be empty.
        """
        empty, weightless = True, False
        for batch in self.batches(rows, block_bytes):
            found, kept = self._parsed(parse, batch)
            weightless = weightless or len(kept) > 0
            if found is not None:
                empty = False
                yield found, kept
        if empty and not may_be_empty:
            raise self._no_rows(weightless=weightless)

    def whole(self, parse: Callable[[LogRows], T]) -> T:
        """What `parse` makes of all rows at once; the error is as above."""
        batches = [*self.batches(block_bytes=None)]
        if not batches:
            raise self._no_rows()
        names = batches[0].columns
        columns = {name: _joined([batch.columns[name] for batch in batches]) for name in names}
        rows = LogRows(batches[0].parts, columns, reading=self.reading)
        del batches
        found, _ = self._parsed(parse, rows)
        if found is None:
            raise self._no_rows()
        return found

    def batches(
        self, rows: int = BATCH_ROWS, block_bytes: int | None = BLOCK_BYTES
    ) -> Iterator[LogRows]:
        """All rows in order, unchecked; a `CommandError` names the part that cannot be read.

        Batches of Parquet have up to `rows` rows, those of other files about `block_bytes` bytes.
        """
        places, first, before = PartRows(), 0, 0
        found = parts_of(self.where, self.reading.delimiter)
        parts = [part for part in found if not part.is_empty] or found
        total = max(1, sum(part.size for part in parts))
        chosen: Sequence[str] | None = None
        told = partial(self._skip_line, places) if self.reading.skip_bad else None
        wanted = Wanted((), self.types, self.words, told, rows, block_bytes)
        for part in parts:
            with errors_named(part.path):
                names = names_of(part)
                keys = {name: value for name, value in part.keys.items() if name not in names}
                chosen = self._chosen(part, parts[0], [*names, *keys], chosen)
                places.begin(part.name, first)
                keys = {name: value for name, value in keys.items() if name in chosen}
                for columns, n, share in self._rows(part, chosen, keys, wanted):
                    done = min(1.0, (before + share * part.size) / total)
                    yield LogRows(places, columns, first, done, self.reading)
                    first += n
            before += part.size

    def _chosen(
        self, part: LogPart, first: LogPart, names: Sequence[str], chosen: Sequence[str] | None
    ) -> Sequence[str]:
        if chosen is None:
            _check_delimiter(part, names)
            return self.choose(part.name, names)
        for name in chosen:
            if names.count(name) != 1:
                raise CommandError(
                    f"{part.name} has {names.count(name) or 'no'} column {name!r}, which"
                    f" {first.name} has: all parts of a log need the columns that are read. It has:"
                    f" {', '.join(names)}"
                )
        return chosen

    def _rows(
        self, part: LogPart, chosen: Sequence[str], keys: Mapping[str, str | None], wanted: Wanted
    ) -> Iterator[tuple[Mapping[str, Any], int, float]]:
        inside = [name for name in chosen if name not in keys]
        for columns, share in batches_of(part, replace(wanted, chosen=inside)):
            n = len(next(iter(columns.values())))
            named = {k: pa.repeat(pa.scalar(value, pa.string()), n) for k, value in keys.items()}
            if n:
                yield {**columns, **named}, n, share

    def _parsed(
        self, parse: Callable[[LogRows], T | None], rows: LogRows
    ) -> tuple[T | None, LogRows]:
        while len(rows):
            try:
                rows = rows.in_utf8()
                return parse(rows), rows
            except BadRows as bad:
                if not self.reading.skip_bad:
                    raise _first(bad, parse, rows) from None
                self.reading.skipped.add(len(bad.numbers), bad.why, bad.examples)
                rows = rows.without(bad.numbers)
        return None, rows

    def _skip_line(self, places: PartRows, before: int, example: str, why: str) -> None:
        places.leave_out(before)
        self.reading.skipped.add(1, why, [example])

    def _no_rows(self, *, weightless: bool = False) -> CommandError:
        skipped = " ".join(self.reading.skipped.notes())
        left = f"no row of the log is left. {skipped}" if skipped else "the log has no rows"
        if weightless:
            left += f" that count: {self.weights} = 0 in each; in one it must be more than 0"
        return CommandError(f"{shown(self.where)}: {left}")


def _first(bad: BadRows, parse: Callable[[LogRows], object], rows: LogRows) -> BadRows:
    """The error of the first wrong row: columns are checked one after another."""
    with suppress(CommandError):
        while len(rows := rows.only(rows.row_numbers() < bad.numbers[0])):
            try:
                parse(rows.in_utf8())
                break
            except BadRows as earlier:
                bad = earlier
    return bad


def require_parquet(path: Path, what: str) -> None:
    """A `CommandError` unless the name of a file to be written is one of Parquet."""
    if path.suffix.lower() != _WRITTEN:
        raise CommandError(f"{path}: {what} is Parquet, its name ends in {_WRITTEN}")


def _check_delimiter(part: LogPart, names: Sequence[str]) -> None:
    if part.format.kind == "text" and len(names) == 1:
        found = [mark for mark in _OTHER_DELIMITERS if mark in names[0]]
        if found:
            named = "tab" if found[0] == "\t" else repr(found[0])
            raise CommandError(
                f"{part.name} has one column, {names[0]!r}: are its columns separated by"
                f" --delimiter {named}?"
            )


def _joined(pieces: Sequence[Any]) -> Any:
    """The values of a column of all batches; as text where parts differ in more than the kind of
    numbers."""
    kinds = {piece.type for piece in pieces} - {pa.null()}
    kind = kinds.pop() if kinds else pa.null()
    if kinds:
        plain = all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in {kind, *kinds})
        kind = pa.float64() if plain else pa.string()
    try:
        pieces = [piece if piece.type == kind else pc.cast(piece, kind) for piece in pieces]
    except pa.ArrowInvalid as error:
        raise CommandError(f"a column is of other numbers in other parts: {error}") from error
    chunks = (piece.chunks if isinstance(piece, pa.ChunkedArray) else [piece] for piece in pieces)
    return pa.chunked_array([chunk for each in chunks for chunk in each], type=kind)
