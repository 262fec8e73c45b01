"""Logs of scored impressions in files, read whole or batch by batch.

Of a log too long to hold row by row, the rows of one hour, campaign and score cell are taken
together.

The impression log of a synthetic platform: something to try the measuring commands on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy.special import expit, logit

from app.datasets.tables import (
    Choose,
    LogColumn,
    compression_of,
    delimiter_of,
    epoch_seconds,
    errors_named,
    is_text,
    no_rows,
    read_table,
    require_columns,
    require_parquet,
    text_columns,
    text_conversion,
)
from app.errors import Advance, CommandError
from app.whole_files import whole_file
from evaluation import EventTable, Platform, PlatformHour
from evaluation.backtest.event_table import EventCells

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
        return {what: name for what, name in asdict(self).items() if what != "bid"}

    def present(self, names: Sequence[str]) -> list[str]:
        """The columns to read from a log with columns `names`."""
        return [
            *dict.fromkeys(name for name in (*self.required.values(), self.bid) if name in names)
        ]

    def chooser(self, path: Path) -> Choose:
        """What says which columns of the log at `path` to read, and refuses it when one is
        missing."""

        def choose(names: Sequence[str]) -> list[str]:
            require_columns(path.name, names, self.required)
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


BATCH_ROWS = 1 << 19
BLOCK_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Some rows of a file.

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


MOST_ROWS: Final = 10_000_000
"""Rows that are held one by one."""


def event_batches(path: Path, columns: LogColumns) -> Iterator[tuple[EventTable, float]]:
    """The events of a log in order, and the share of the file that has been read.

    A `CommandError` names file, row, column, value and rule, or a file without rows.
    """
    file = LogFile(path, columns.chooser(path), columns.types, words=(columns.campaign,))
    empty = True
    for batch in file.batches():
        empty = False
        yield events_of(path.name, pa.table(dict(batch.columns)), columns, batch.first), batch.done
    if empty:
        raise no_rows(path)


def read_events(
    path: Path,
    columns: LogColumns,
    reached: Callable[[float], None],
    most_rows: int = MOST_ROWS,
) -> EventTable:
    """All events of a log; of one with more than `most_rows` rows, its cells.

    See `EventCells`: each of its rows then stands for several events. `reached` is called with the
    share of the file that has been read.
    """
    held: list[EventTable] = []
    cells: EventCells | None = None
    rows = 0
    for events, done in event_batches(path, columns):
        rows += len(events)
        held.append(events)
        if cells is None and rows > most_rows:
            cells = EventCells()
        if cells is not None:
            _move(held, cells)
        reached(done)
    return EventTable.concatenate(held) if cells is None else cells.table()


def _move(held: list[EventTable], cells: EventCells) -> None:
    held.reverse()
    while held:
        cells.add(held.pop())


_USERS = 30_000
_NOISE_OF_CANDIDATE, _SPREAD_OF_BIDS, _SPREAD_IN_CAMPAIGN = 0.2, 0.7, 0.2
_CATEGORY = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    {
        "time": pa.float64(),
        "campaign": _CATEGORY,
        "score": pa.float64(),
        "candidate": pa.float64(),
        "outcome": pa.int8(),
        "bid": pa.float64(),
        "user": pa.int32(),
        "arm": _CATEGORY,
        "cost": pa.float64(),
    }
)


def write_impression_log(path: Path, platform: Platform, hours: int, advance: Advance) -> int:
    """Write the platform's first hours, a row group each; returns how many impressions.

    Beside what a log must have it holds the scores of a better model (`candidate`: the truth with
    noise), bids and costs, and the arms of an A/A test over users. The file stands there when all
    of it does.
    """
    require_parquet(path, "this log")
    with whole_file(path) as unfinished:
        impressions = 0
        with pyarrow.parquet.ParquetWriter(unfinished, SCHEMA) as writer:
            for table in _drawn(platform, hours):
                writer.write_table(table)
                impressions += int(table.num_rows)
                advance("")
        if not impressions:
            raise CommandError(f"{path}: there are no impressions to write")
    return impressions


def _drawn(platform: Platform, hours: int) -> Iterator[Any]:
    bids = np.random.default_rng((platform.seed, 2)).normal(
        0.0, _SPREAD_OF_BIDS, platform.campaigns
    )
    for hour in range(hours):
        rng = np.random.default_rng((platform.seed, 3, hour))
        yield _table(platform.hour(hour), np.exp(bids), rng)


def _table(hour: PlatformHour, levels: Any, rng: np.random.Generator) -> Any:
    events, n = hour.events, len(hour.events)
    bids = levels[events.rows] * np.exp(rng.normal(0.0, _SPREAD_IN_CAMPAIGN, n))
    users = rng.integers(0, _USERS, n)
    candidate = expit(logit(hour.truth) + rng.normal(0.0, _NOISE_OF_CANDIDATE, n))
    arms = pa.DictionaryArray.from_arrays((users % 2).astype(np.int32), ["control", "treatment"])
    columns = {
        "time": events.times,
        "campaign": pa.DictionaryArray.from_arrays(events.rows, list(events.campaigns)),
        "score": events.scores,
        "candidate": candidate,
        "outcome": events.outcomes.astype(np.int8),
        "bid": bids,
        "user": users.astype(np.int32),
        "arm": arms,
        "cost": bids * events.outcomes,
    }
    return pa.table(columns, schema=SCHEMA)
