"""Click logs in files: Parquet, a row for each click of a delayed target with its conversion."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from app.datasets.behaviours import FeatureColumn, parsed
from app.datasets.options import Reading
from app.datasets.parts import Where, errors_named, parts_of
from app.datasets.reading import LogReader, require_parquet
from app.datasets.tables import LogColumn, LogRows, require_columns, require_once
from app.errors import CommandError
from app.settings import SECONDS_PER_DAY
from app.whole_files import whole_file
from calibrators.fields.columns import FieldColumns, chosen
from calibrators.samples import Floats, Integers
from evaluation import ClickStream
from pccem import Categorical, Clicks, Column, Features

_WHAT = "a click log"
_BEHAVIOUR, _FEATURE = "behaviour.", "feature."
_KNOWN_UNTIL = b"sirocco.known_until"

MOST_DAYS: Final = 1000
"""From a click to its conversion: by a date that stands for none, such as 2099-12-31, all
conversions would be known."""


@dataclass(frozen=True, slots=True)
class ClickColumns:
    """Which column of a click log holds what; `behaviour.*` and `feature.*` are read as well.

    behaviours, features : further ones, each a column or NAME=COLUMN+COLUMN for a sum.
    fields : by their names in events.
    """

    time: str = "time"
    campaign: str = "campaign"
    score: str = "score"
    converted: str = "converted_at"
    behaviours: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def required(self) -> dict[str, str]:
        """What -> the column that must be there."""
        return {
            "time": self.time,
            "campaign": self.campaign,
            "score": self.score,
            "converted": self.converted,
        }

    def further(self, file: str, names: Sequence[str]) -> dict[str, FeatureColumn]:
        """The further ones of a file with these columns, by their names as features."""
        found: dict[str, FeatureColumn] = {}
        for prefix, option, texts in (
            (_BEHAVIOUR, "behaviour", self.behaviours),
            (_FEATURE, "feature", self.features),
        ):
            found |= {prefix + each.name: each for each in parsed(option, texts, names, file)}
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ClickFile:
    """The clicks of a log, until when their conversions are known, epoch seconds, and the fields
    that were asked for."""

    stream: ClickStream
    known_until: float
    fields: FieldColumns = field(default_factory=dict)


def read_click_log(
    where: Where, columns: ClickColumns | None = None, reading: Reading | None = None
) -> ClickFile:
    """The clicks of a log in any order; a `CommandError` names file, row, column, value and rule.

    A log that does not say until when its conversions are known ends with its last time.
    """
    named = columns or ClickColumns()

    def choose(file: str, names: Sequence[str]) -> list[str]:
        require_columns(file, names, named.required, fields=named.fields)
        for name in names:
            require_once(file, names, name)
        read = (n for n in names if n.startswith((_BEHAVIOUR, _FEATURE)))
        further = (n for each in named.further(file, names).values() for n in each.columns)
        return [*dict.fromkeys((*named.required.values(), *read, *further, *named.fields))]

    def parse(rows: LogRows) -> tuple[ClickStream, FieldColumns]:
        order = np.argsort(rows.column(named.time).times(), kind="stable")
        fields = {name: rows.column(name).field() for name in named.fields}
        return _stream(rows, named, order), chosen(fields, order)

    types = dict.fromkeys((named.campaign, *named.fields), pa.string())
    stream, fields = LogReader(where, choose, types, (), reading or Reading()).whole(parse)
    known_until = _known_until(where)
    if known_until is None:
        times = stream.clicks.clicked_at
        known_until = float(np.fmax(times, times + stream.delay).max())
    return ClickFile(stream, known_until, fields)


def _known_until(where: Where) -> float | None:
    """The latest moment that a part names."""
    found = []
    for part in parts_of(where):
        if part.format.kind == "parquet":
            with errors_named(part.path), part.opened() as (raw, _):
                metadata = pyarrow.parquet.read_schema(raw).metadata or {}
            found += [float(metadata[_KNOWN_UNTIL])] if _KNOWN_UNTIL in metadata else []
    return max(found, default=None)


def write_click_log(path: Path, streams: Iterable[ClickStream], known_until: float) -> int:
    """Write the clicks, one stream after the other; returns how many.

    The file stands there when all of it does.
    """
    require_parquet(path, _WHAT)
    with whole_file(path) as unfinished:
        clicks = _write(unfinished, streams, known_until)
        if not clicks:
            raise CommandError(f"{path}: there are no clicks to write")
    return clicks


def _stream(table: LogRows, columns: ClickColumns, order: Integers) -> ClickStream:
    times = table.column(columns.time).times()
    delay = _delays(table.column(columns.converted), times)
    campaigns, rows = table.column(columns.campaign).categories("a campaign must have a name")
    scores = table.column(columns.score).scores()
    behaviours = [name for name in table.columns if name.startswith(_BEHAVIOUR)]
    rule = "a behaviour is a number from 0 up, or empty where there was none"
    read = partial(LogColumn.within, low=0, high=np.finfo(np.float64).max, rule=rule)
    found = map(table.column, behaviours)
    features: dict[str, Column] = {each.name: each.where_known(read, np.nan) for each in found}
    for name in table.columns:
        if name.startswith(_FEATURE):
            features[name] = FeatureColumn(name, (name,)).read(table)
    for name, each in columns.further("the log", [*table.columns]).items():
        features[name] = each.read(table)
    clicks = Clicks(times, campaigns, rows, scores, Features(features, len(times)))
    return ClickStream(clicks.select(order), delay[order])


def _delays(column: LogColumn, times: Floats) -> Floats:
    delay = column.where_known(LogColumn.times, np.nan) - times
    early = delay < 0
    if early.any():
        click = times[np.argmax(early)]
        column.refuse_where(early, f"a conversion comes after its click at {click}")
    rule = f"a conversion comes within {MOST_DAYS:,} days of its click; where none came it is empty"
    column.refuse_where(delay > MOST_DAYS * SECONDS_PER_DAY, rule)
    return delay


def _write(path: Path, streams: Iterable[ClickStream], known_until: float) -> int:
    writer, clicks = None, 0
    try:
        for stream in streams:
            table = _table(stream, known_until)
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            clicks += len(stream)
    finally:
        if writer is not None:
            writer.close()
    return clicks


def _table(stream: ClickStream, known_until: float) -> Any:
    clicks, names = stream.clicks, ClickColumns()
    converted_at = clicks.clicked_at + stream.delay
    columns = {
        names.time: clicks.clicked_at,
        names.campaign: pa.DictionaryArray.from_arrays(clicks.rows, list(clicks.campaigns)),
        names.score: clicks.scores,
        names.converted: pa.array(converted_at, from_pandas=True),
        **{name: _array(column) for name, column in clicks.features.columns.items()},
    }
    return pa.table(columns).replace_schema_metadata({_KNOWN_UNTIL: repr(known_until)})


def _array(column: Column) -> Any:
    """The column with its missing values as nulls."""
    if isinstance(column, Categorical):
        codes = pa.array(column.codes, mask=column.codes < 0)
        categories = pa.array(column.categories, pa.string())
        return pa.DictionaryArray.from_arrays(codes, categories)
    return pa.array(column, from_pandas=True)
