"""Logs of clicks, of what was done after them and of conversions, as a lake has them: apart."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from app.click_log.rows import (
    CAMPAIGN,
    CLICK_ID,
    CLICKED_AT,
    FEATURE,
    FIELD,
    ID_TYPE,
    NUMBER,
    OCCURRED_AT,
    SCORE,
    TARGET,
    TEXT,
    VALUE,
)
from app.datasets.behaviours import FeatureColumn
from app.datasets.formats import is_text
from app.datasets.impressions import CAMPAIGN_RULE
from app.datasets.options import Reading
from app.datasets.parts import LogPart, errors_named
from app.datasets.reading import LogReader
from app.datasets.tables import BadRows, LogColumn, LogRows, PartRows, require_columns
from app.errors import CommandError
from pccem import Categorical

_NAME_RULE = "a behaviour must have a name"
_VALUE_RULE = "the value of a behaviour is a finite number of at least 0"
_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ClickEventColumns:
    """Which columns of the three logs hold what; features are `feature.*` of clicks.

    click_id, time : of all three.
    campaign, score : of clicks; fields by their names in events.
    name, value : of behaviours.
    target : of conversions; without such a column all are of the target that is asked for.
    """

    click_id: str = "click_id"
    time: str = "time"
    campaign: str = "campaign"
    score: str = "score"
    name: str = "name"
    value: str = "value"
    target: str = "target"
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileTimes:
    """A file of a log and its earliest and latest time, epoch seconds; none where it is empty."""

    part: LogPart
    first: float = inf
    last: float = -inf


def file_times(parts: Sequence[LogPart], time: str, reading: Reading) -> list[FileTimes]:
    """The times of files of Parquet by the statistics in their footers; a `CommandError` names a
    file that has none."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return list(pool.map(lambda part: _times_of(part, time, reading), parts))


def _times_of(part: LogPart, time: str, reading: Reading) -> FileTimes:
    if part.format.kind != "parquet":
        raise CommandError(f"{part.name}: clicks of a lake are Parquet, whose footer has its times")
    with errors_named(part.name), part.opened() as (raw, _):
        metadata = pyarrow.parquet.read_metadata(raw)
    schema = metadata.schema.to_arrow_schema()
    require_columns(part.name, schema.names, {"time": time})
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    # A struct before it may have a field of this name.
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    column, kind = paths.index(time), schema.field(time).type
    found = [group.column(column).statistics for group in groups if group.num_rows]
    if not found:
        return FileTimes(part)
    if is_text(kind) or not all(each is not None and each.has_min_max for each in found):
        raise CommandError(
            f"{part.name}: column {time!r} has no smallest and largest value of its row groups: in"
            " a lake it is a timestamp or a number, written with statistics"
        )
    ends = pa.array([end for each in found for end in (each.min, each.max)], kind)
    try:
        times = LogRows(PartRows(part.name), {time: ends}, reading=reading).column(time).times()
    except BadRows as bad:
        raise CommandError(
            f"{part.name}: its smallest or largest {bad.why}; by these hours are found, so that no"
            " such row can be skipped"
        ) from None
    return FileTimes(part, float(times.min()), float(times.max()))


@dataclass(frozen=True, slots=True)
class ClickEventReader:
    """Reads files of the three logs in tables of batches; a `CommandError` names file, row,
    column, value and rule. Rows are those whose time lies in [first, behind)."""

    target: str
    columns: ClickEventColumns
    reading: Reading
    span: tuple[float, float]

    def until(self, seconds: float) -> "ClickEventReader":
        """The same so much further."""
        return replace(self, span=(self.span[0], self.span[1] + seconds))

    def clicks(self, urls: Sequence[str]) -> Iterator[Any]:
        """With the columns of a click log, without behaviours."""
        names, fields = ("click_id", "time", "campaign", "score"), self.columns.fields

        def parse(rows: LogRows) -> Any:
            names, codes = rows.column(self.columns.campaign).categories(CAMPAIGN_RULE)
            found = {
                CLICK_ID: self._ids(rows),
                CAMPAIGN: pa.array(names, TEXT).take(pa.array(codes)),
                CLICKED_AT: self._times(rows),
                SCORE + self.target: rows.column(self.columns.score).scores(),
            }
            for name, values in rows.columns.items():
                # A column of nulls alone has no type, and must not change that of other files.
                if name.startswith(FEATURE) and not pa.types.is_null(values.type):
                    found[name] = _feature(rows, name)
            return pa.table(found | {FIELD + name: _field(rows.column(name)) for name in fields})

        return self._tables(urls, names, parse, CLICKED_AT, lambda name: name.startswith(FEATURE))

    def behaviours(self, urls: Sequence[str]) -> Iterator[Any]:
        """With click id, time, name and value."""

        def parse(rows: LogRows) -> Any:
            names, codes = rows.column(self.columns.name).codes(_NAME_RULE)
            largest = float(np.finfo(np.float64).max)
            columns = {
                CLICK_ID: self._ids(rows),
                OCCURRED_AT: self._times(rows),
                "name": names.take(pa.array(codes)),
                VALUE: rows.column(self.columns.value).within(0, largest, _VALUE_RULE),
            }
            return pa.table(columns)

        return self._tables(urls, ("click_id", "time", "name", "value"), parse, OCCURRED_AT)

    def conversions(self, urls: Sequence[str]) -> Iterator[Any]:
        """The target's, with click id, target and time."""

        def parse(rows: LogRows) -> Any:
            own = pa.repeat(pa.scalar(self.target, TEXT), len(rows))
            if self.columns.target in rows.columns:
                own = _text(rows.column(self.columns.target), TEXT)
            columns = {CLICK_ID: self._ids(rows), TARGET: own, OCCURRED_AT: self._times(rows)}
            return pa.table(columns).filter(pc.equal(own, self.target))

        named = self.columns.target.__eq__
        return self._tables(urls, ("click_id", "time"), parse, OCCURRED_AT, named)

    def _tables(
        self,
        urls: Sequence[str],
        names: Sequence[str],
        parse: Callable[[LogRows], Any],
        time: str,
        optional: Callable[[str], bool] = lambda _: False,
    ) -> Iterator[Any]:
        required = {name.replace("_", "-"): getattr(self.columns, name) for name in names}
        if "score" in names:
            required |= {f"fields {name}": name for name in self.columns.fields}

        def choose(file: str, given: Sequence[str]) -> list[str]:
            require_columns(file, given, required)
            return [*dict.fromkeys((*required.values(), *filter(optional, given)))]

        for url in urls:
            reader = LogReader(url, choose, {}, (), self.reading)
            for table, _ in reader.parsed(parse, may_be_empty=True):
                times = table[time].to_numpy()
                yield table.filter((times >= self.span[0]) & (times < self.span[1]))

    def _ids(self, rows: LogRows) -> Any:
        return _text(rows.column(self.columns.click_id), ID_TYPE)

    def _times(self, rows: LogRows) -> Any:
        return rows.column(self.columns.time).times()


def _text(column: LogColumn, kind: Any) -> Any:
    """Every value as text; a number as it is written."""
    column.refuse_where(column.missing(), f"{column.name} must not be empty")
    try:
        return pc.cast(column.as_written(), kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        kind = column.values.type
        raise CommandError(
            f"{column.file}: column {column.name!r} holds {kind}, not texts or numbers"
        ) from error


def _feature(rows: LogRows, name: str) -> Any:
    """Numbers, or texts; a missing value is null."""
    column = FeatureColumn(name, (name,)).read(rows)
    if not isinstance(column, Categorical):
        return pa.array(column, NUMBER, from_pandas=True)
    codes = pa.array(column.codes, mask=column.codes < 0)
    return pa.array(column.categories, TEXT).take(codes)


def _field(column: LogColumn) -> Any:
    """Texts; other is null."""
    names, codes = column.field()
    return pa.array([name or None for name in names], TEXT).take(pa.array(codes))
