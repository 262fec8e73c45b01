"""Logs of scored impressions in files, read whole or batch by batch.

Of a log too long to hold row by row, the rows of one hour, campaign and score cell are taken
together.

The impression log of a synthetic platform: something to try the measuring commands on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray
from scipy.special import expit, logit

from app.datasets.options import Reading
from app.datasets.parts import Where
from app.datasets.reading import LogReader, require_parquet
from app.datasets.tables import LogRows, require_columns
from app.errors import Advance, CommandError
from app.whole_files import whole_file
from calibrators.bins.model_versions import VERSION_RULE, is_version
from calibrators.samples import Floats
from evaluation import EventTable, Platform, PlatformHour
from evaluation.backtest.event_table import EventCells

OUTCOME_RULE = "an outcome must be a number in [0, 1]"
CAMPAIGN_RULE = "a campaign must have a name"
BID_RULE = "a bid is a number from 0 to 1e280"
LARGEST_BID = 1e280
"""Sums of such bids, and of their products with weights, are numbers still."""
_WEIGHT_RULE = "a weight is a number from 0 to 1e12"
_COUNT_RULE = "a count is a whole number from 0 to 1e12"
_CLICKS_RULE = "clicks are a whole number from 0 up, and no more than the impressions"
_MOST = 1e12


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Which column of the log holds what; `bid` is read where the log has one.

    weights : where a row counts as so many; None where each is one.
    fields : columns of fields, such as device, by their names in events.
    impressions, clicks : where a row stands for so many impressions of one score and so many
        clicks, instead of an outcome; None where it does not.
    model_version : the version of the model that made the score; None where all are of one.
    """

    score: str = "score"
    outcome: str = "outcome"
    campaign: str = "campaign"
    time: str = "time"
    bid: str = "bid"
    weights: str | None = None
    impressions: str | None = None
    clicks: str | None = None
    fields: tuple[str, ...] = ()
    model_version: str | None = None

    @classmethod
    def of(cls, *options: Any) -> "LogColumns":
        """The names that some options of a command have, by what they are called; a `CommandError`
        where one of them would be ignored."""
        names = [field.name for field in fields(cls)]
        found = cls(**{n: getattr(each, n) for each in options for n in names if hasattr(each, n)})
        if found.impressions is not None and found.outcome != cls().outcome:
            raise CommandError("--outcome does not go with --impressions: clicks are the outcomes")
        return found

    @property
    def counted(self) -> dict[str, str]:
        """What -> the column that outcomes and weights are made of."""
        found = {"outcome": self.outcome, "weights": self.weights}
        if self.impressions is not None:
            found = {"impressions": self.impressions, "clicks": self.clicks}
        return {what: name for what, name in found.items() if name is not None}

    @property
    def required(self) -> dict[str, str]:
        """What -> the column that must be there."""
        others = {"score": self.score, "campaign": self.campaign, "time": self.time}
        return {**others, **self.counted}

    def choose(self, file: str, names: Sequence[str]) -> list[str]:
        """The columns to read from a file with columns `names`, or a `CommandError`."""
        version = () if self.model_version is None else (self.model_version,)
        require_columns(file, names, self.required, fields=self.fields, model_version=version)
        wanted = (*self.required.values(), self.bid, *self.texts)
        present = (name for name in wanted if name in names)
        return [*dict.fromkeys(present)]

    @property
    def types(self) -> dict[str, Any]:
        """Arrow types of the columns of text files."""
        numbers = (self.score, self.bid, *self.counted.values())
        return {
            **dict.fromkeys(numbers, pa.float64()),
            **dict.fromkeys((self.time, self.campaign, *self.texts), pa.string()),
        }

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of texts that a row may leave empty."""
        return self.fields if self.model_version is None else (*self.fields, self.model_version)

    @property
    def weight(self) -> str | None:
        """The column that says as how many a row counts; None where each is one."""
        return self.impressions or self.weights

    def weighted(self, rows: LogRows) -> tuple[LogRows, Floats | None]:
        """The rows that count, and as how many each of them does; None where each is one."""
        if self.weight is None:
            return rows, None
        column = rows.column(self.weight)
        if self.impressions is None:
            weights = column.within(0, _MOST, _WEIGHT_RULE)
        else:
            weights = column.whole(0, _MOST, _COUNT_RULE)
        held = weights > 0
        return rows.only(held), weights[held]

    def outcomes(self, rows: LogRows, weights: Floats | None) -> Floats:
        """The outcome of each row, (n,)."""
        if self.clicks is None or weights is None:
            return rows.column(self.outcome).truths().within(0, 1, OUTCOME_RULE)
        column = rows.column(self.clicks)
        clicks = column.truths().whole(0, _MOST, _CLICKS_RULE)
        column.refuse_where(clicks > weights, _CLICKS_RULE)
        return clicks / weights


def read_log(where: Where, columns: LogColumns, reading: Reading | None = None) -> EventTable:
    """The events of a log; a `CommandError` names file, row, column, value and rule."""
    batches = event_batches(where, columns, reading or Reading())
    return EventTable.concatenate([events for events, _ in batches])


def _events_of(rows: LogRows, columns: LogColumns) -> tuple[EventTable, LogRows] | None:
    """The events of the rows that count, and these rows."""
    rows, weights = columns.weighted(rows)
    if not len(rows):
        return None
    campaigns, codes = rows.column(columns.campaign).categories(CAMPAIGN_RULE)
    has_bids = columns.bid in rows.columns
    bids = rows.column(columns.bid).within(0, LARGEST_BID, BID_RULE) if has_bids else None
    events = EventTable(
        times=rows.column(columns.time).times(),
        campaigns=campaigns,
        rows=codes,
        scores=rows.column(columns.score).scores(),
        outcomes=columns.outcomes(rows, weights),
        bids=bids,
        weights=weights,
        fields={name: rows.column(name).field() for name in columns.fields} or None,
    )
    if columns.model_version is not None:
        column = rows.column(columns.model_version)
        versions = column.field()
        wrong = np.array([bool(name) and not is_version(name) for name in versions.names], np.bool_)
        column.refuse_where(wrong[versions.codes], f"a version {VERSION_RULE}")
        events = events.of_versions(*versions)
    return events, rows


MOST_ROWS: Final = 10_000_000
"""Rows that are held one by one."""


def event_batches(
    where: Where, columns: LogColumns, reading: Reading, *, may_be_empty: bool = False
) -> Iterator[tuple[EventTable, LogRows]]:
    """The events of a log in order, and their rows; errors as above, also of a log without rows,
    unless it may be empty."""
    words = (columns.campaign, *columns.texts)
    reader = LogReader(where, columns.choose, columns.types, words, reading, columns.weight)
    parse = partial(_events_of, columns=columns)
    for found, _ in reader.parsed(parse, may_be_empty=may_be_empty):
        yield found


@dataclass(frozen=True, slots=True, eq=False)
class ReadEvents:
    """All events of a log, or its cells.

    rows : how many rows count.
    numbers : which of the log's rows each event is, (n,), counted from 0; None of cells.
    """

    events: EventTable
    rows: int
    numbers: NDArray[np.int64] | None


def read_events(
    where: Where,
    columns: LogColumns,
    reached: Callable[[float], None],
    most_rows: int = MOST_ROWS,
    reading: Reading | None = None,
) -> ReadEvents:
    """All events of a log; of one with more than `most_rows` rows, its cells.

    See `EventCells`: each of its rows then stands for several events. `reached` is called with the
    share of the log that has been read.
    """
    held: list[EventTable] = []
    numbers: list[NDArray[np.int64]] = []
    cells: EventCells | None = None
    read = 0
    for events, rows in event_batches(where, columns, reading or Reading()):
        read += len(events)
        held.append(events)
        if cells is None and read > most_rows:
            cells = EventCells()
        if cells is None:
            numbers.append(rows.row_numbers())
        else:
            numbers.clear()
            _move(held, cells)
        reached(rows.done)
    if cells is not None:
        return ReadEvents(cells.table(), read, None)
    return ReadEvents(EventTable.concatenate(held), read, np.concatenate(numbers))


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
    noise), bids and costs, the arms of an A/A test over users, and the platform's fields. The file
    stands there when all of it does.
    """
    require_parquet(path, "this log")
    with whole_file(path) as unfinished:
        impressions = 0
        fields = [pa.field(name, _CATEGORY) for name in platform.fields]
        with pyarrow.parquet.ParquetWriter(unfinished, pa.schema([*SCHEMA, *fields])) as writer:
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
    table = pa.table(columns, schema=SCHEMA)
    for name, field in (events.fields or {}).items():
        codes = field.codes.astype(np.int32)
        table = table.append_column(name, pa.DictionaryArray.from_arrays(codes, list(field.names)))
    return table
