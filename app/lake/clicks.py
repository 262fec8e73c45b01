"""Clicks of a lake, hour by hour: each with the sums of what was done after it, as the service
closes them, and beside them the hour's conversions.

Labels and trainings read both as they read a click log: `JoinedHours`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from math import ceil, floor
from multiprocessing.util import Finalize
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final

import msgspec
import pyarrow as pa

from app.click_log.parts import (
    CLICKS,
    CONVERSIONS,
    Contents,
    Partition,
    Wanted,
    decode_part,
    encode_part,
)
from app.click_log.reading import distinct_clicks, distinct_conversions
from app.click_log.rows import (
    BEHAVIOUR,
    CLICK_COLUMNS,
    CLICK_ID,
    CLICKED_AT,
    CONVERSION_COLUMNS,
    SCORE,
    behaviour_sums,
    stacked,
    value_columns,
)
from app.datasets.click_events import ClickEventColumns, ClickEventReader, FileTimes, file_times
from app.datasets.options import Reading
from app.datasets.parts import is_there, parts_of, place_below, shown
from app.errors import CommandError
from app.lake.tasks import PartitionTask, extra, reaching_output, reading_settings
from app.settings import SECONDS_PER_HOUR

_BEHAVIOURS: Final = "behaviours"
_OPTIONS: Final = {"memory_limit": "1GB", "threads": "1"}
_ROWS_AT_ONCE: Final = 100_000
_TABLE: Final = """
    CREATE TEMP TABLE behaviours (click_id VARCHAR, occurred_at DOUBLE, name VARCHAR, value DOUBLE)
"""
_INSERT: Final = "INSERT INTO behaviours FROM batch SEMI JOIN clicks USING (click_id)"
_JOIN: Final = """
    SELECT clicks.place, behaviours.occurred_at, behaviours.name, behaviours.value
    FROM clicks JOIN behaviours USING (click_id)
    ORDER BY ALL
"""

Span = tuple[float, float]


def hours_of(span: Span) -> range:
    """The hours since 1970 that a span of [first, behind) is part of."""
    return range(floor(span[0] / SECONDS_PER_HOUR), ceil(span[1] / SECONDS_PER_HOUR))


def _seconds_of(hour: int) -> Span:
    return float(hour * SECONDS_PER_HOUR), float((hour + 1) * SECONDS_PER_HOUR)


class ClickLake:
    """The files of the three logs, and how they are read; those without rows are left out."""

    def __init__(
        self,
        source: str,
        target: str,
        columns: ClickEventColumns,
        reading: Reading,
        post_click: float,
    ) -> None:
        """The logs in the folders `clicks`, `behaviours` and `conversions` of a folder or URL; the
        second may be missing. A behaviour counts for so many seconds after its click. A
        `CommandError` says what cannot be read."""
        self.target, self.columns, self.reading = target, columns, reading
        self.post_click = post_click
        places = {log: place_below(source, log) for log in (CLICKS, _BEHAVIOURS, CONVERSIONS)}
        self.files: dict[str, list[FileTimes]] = {}
        for log, place in places.items():
            there = log != _BEHAVIOURS or is_there(place)
            found = file_times(parts_of(place), columns.time, reading) if there else []
            self.files[log] = [each for each in found if each.first <= each.last]
        if not self.files[CLICKS]:
            raise CommandError(f"{shown(places[CLICKS])}: there are no clicks")

    @property
    def known_until(self) -> float:
        """The end of the newest hour that any of the logs has."""
        newest = max(each.last for files in self.files.values() for each in files)
        return _seconds_of(floor(newest / SECONDS_PER_HOUR))[1]

    def tasks(self, clicks: Span, conversions: Span, output: str) -> "HourTasks":
        """Those of all hours with clicks and with conversions in these spans."""
        more = {CLICKS: 0.0, _BEHAVIOURS: self.post_click}
        return HourTasks(
            self._hours(CLICKS, clicks, more, output),
            self._hours(CONVERSIONS, conversions, {CONVERSIONS: 0.0}, output),
        )

    def _hours(
        self, kind: str, span: Span, logs: Mapping[str, float], output: str
    ) -> dict[int, PartitionTask]:
        """A task for each hour of a span that has files; each log is read some seconds further."""
        settings: dict[str, Any] = {
            "target": self.target,
            "columns": asdict(self.columns),
            "reading": reading_settings(self.reading),
            "post_click": self.post_click,
        }
        tasks = {}
        for hour in hours_of(span):
            first, behind = _seconds_of(hour)
            files = {
                log: [
                    e.part for e in self.files[log] if e.first < behind + more and e.last >= first
                ]
                for log, more in logs.items()
            }
            if files[kind]:
                identity = [
                    [log, shown(part.url), part.size, part.modified]
                    for log, parts in files.items()
                    for part in parts
                ]
                urls = {log: [part.url for part in parts] for log, parts in files.items()}
                own = {**settings, "hour": hour}
                tasks[hour] = PartitionTask.of(kind, urls, identity, output, own)
        return tasks


@dataclass(frozen=True, slots=True)
class HourTasks:
    """A task for each hour of clicks, and of conversions."""

    clicks: Mapping[int, PartitionTask]
    conversions: Mapping[int, PartitionTask]

    @property
    def all(self) -> list[PartitionTask]:
        """Of both."""
        return [*self.clicks.values(), *self.conversions.values()]

    def results(self, clicks: Span, conversions: Span) -> dict[str, dict[str, str]]:
        """What `JoinedHours` reads these spans from, of JSON."""
        spans = ((CLICKS, self.clicks, clicks), (CONVERSIONS, self.conversions, conversions))
        return {
            log: {str(hour): tasks[hour].result for hour in hours_of(span) if hour in tasks}
            for log, tasks, span in spans
        }


@dataclass(frozen=True, slots=True)
class JoinedHours:
    """The results of hours, read as the parts of a click log are.

    output : the folder or URL of all results.
    results : the path of each in it, by log and hour.
    """

    output: str
    results: Mapping[str, Mapping[str, str]]

    def list_days(self, partitions: Sequence[Partition]) -> dict[Partition, str]:
        """The results of those of the hours that have any."""
        found = {each: self.results[each.dataset].get(str(each.hour)) for each in partitions}
        return {each: result for each, result in found.items() if result is not None}

    def read(self, parts: str, wanted: Wanted) -> Contents:
        """The wanted columns of one result; a `CommandError` where it is gone."""
        with reaching_output(self.output) as folder:
            data = folder.read(parts)
        if data is None:
            raise CommandError(f"{shown(self.output)}/{parts} is gone: begin the job again")
        return Contents([], [decode_part(data, parts.partition("/")[0], wanted)])


def made_clicks(task: PartitionTask) -> tuple[bytes, dict[str, Any]]:
    """The closed clicks of an hour, as a part of a click log; tells their rows, and what was
    skipped. A `CommandError` names file, row, column, value and rule."""
    target, post_click = task.settings["target"], task.settings["post_click"]
    nothing = pa.schema([*CLICK_COLUMNS.items(), (SCORE + target, pa.float64())]).empty_table()
    events = _events_of(task)
    clicks, _ = distinct_clicks(stacked([nothing, *events.clicks(task.urls[CLICKS])]))
    behaviours = events.until(post_click).behaviours(task.urls[_BEHAVIOURS])
    for name, column in value_columns(BEHAVIOUR, _sums(clicks, behaviours, post_click)).items():
        clicks = clicks.append_column(name, column)
    return _result(clicks.select(sorted(clicks.schema.names)), events)


def made_conversions(task: PartitionTask) -> tuple[bytes, dict[str, Any]]:
    """The conversions of an hour, each once; otherwise as above."""
    nothing = pa.schema(CONVERSION_COLUMNS.items()).empty_table()
    events = _events_of(task)
    read = events.conversions(task.urls[CONVERSIONS])
    return _result(distinct_conversions(stacked([nothing, *read])), events)


def _events_of(task: PartitionTask) -> ClickEventReader:
    given = task.settings
    columns = msgspec.convert(given["columns"], ClickEventColumns)
    reading = msgspec.convert(given["reading"], Reading)
    return ClickEventReader(given["target"], columns, reading, _seconds_of(given["hour"]))


def _result(table: Any, events: ClickEventReader) -> tuple[bytes, dict[str, Any]]:
    told = {"rows": len(table), "notes": events.reading.skipped.notes()}
    return encode_part(table), told


def _sums(clicks: Any, behaviours: Iterable[Any], post_click: float) -> list[dict[str, float]]:
    """What was done after each click, by name: the rule is that of `ClosedClick.close`."""
    sums: list[dict[str, float]] = [{} for _ in range(len(clicks))]
    clicked_at = clicks[CLICKED_AT].to_pylist()
    for place, found in groupby(_joined(clicks, behaviours), key=lambda row: row[0]):
        # Of repeats of one name and time, the smallest value counts.
        each = {(name, at): value for _, at, name, value in reversed([*found])}
        timed = ((name, at, value) for (name, at), value in each.items())
        sums[place] = behaviour_sums(clicked_at[place], timed, post_click)
    return sums


def _joined(clicks: Any, behaviours: Iterable[Any]) -> Iterator[tuple[int, float, str, float]]:
    """Place of the click, time, name and value of each behaviour of a click, in this order."""
    places = pa.table({CLICK_ID: clicks[CLICK_ID], "place": pa.array(range(len(clicks)))})
    with _database(extra("duckdb", "lake", "joining clicks and behaviours")).cursor() as connection:
        connection.register("clicks", places)
        connection.execute(_TABLE)
        for rows in behaviours:
            connection.register("batch", rows)
            connection.execute(_INSERT)
        for batch in connection.sql(_JOIN).to_arrow_reader(_ROWS_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


@cache
def _database(duckdb: Any) -> Any:
    """Brings rows together and sorts them; what it cannot hold, it keeps on disk. One a process: to
    make it takes longer than to join the clicks of a quiet hour."""
    folder = mkdtemp(prefix="sirocco-lake-")
    # The children of a pool end without `atexit`.
    Finalize(None, rmtree, (folder, True), exitpriority=0)
    return duckdb.connect(config={**_OPTIONS, "temp_directory": folder})
