"""Parts: the Parquet files of the click log, named by what is in them. Writes, lists and reads
them, and puts damaged ones aside.

The rows of one hour (UTC) are in <dataset>/date=YYYY-MM-DD/hour=HH. The same rows make the same
bytes.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from app.click_log.folder import ClickLogUnavailable, DamagedPart, Folder, NewerPart
from app.click_log.rows import (
    BEHAVIOUR,
    CATEGORY,
    CLICK_COLUMNS,
    CLICK_ID,
    CONVERSION_COLUMNS,
    FIELD,
    TEXT,
    wrong_column,
)

CLICKS = "clicks"
CONVERSIONS = "conversions"
DATASETS = (CLICKS, CONVERSIONS)
QUARANTINE = "quarantine"

SECONDS = 3600
_HOURS = 24
_PATH = re.compile(r"(\w+)/date=(\d{4}-\d{2}-\d{2})/hour=([01]\d|2[0-3])(?:/|$)")


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """The rows of one dataset whose time is in [hour * 3600, (hour + 1) * 3600)."""

    dataset: str
    hour: int

    @classmethod
    def at(cls, dataset: str, seconds: float) -> Self:
        """The partition of a moment."""
        return cls(dataset, math.floor(seconds / SECONDS))

    @classmethod
    def of_path(cls, path: str) -> Self | None:
        """The partition that a path, below the root or the quarantine, leads into; None of none."""
        found = _PATH.match(path.removeprefix(f"{QUARANTINE}/"))
        if found is None or found[1] not in DATASETS:
            return None
        try:
            day = datetime.strptime(found[2], "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            return None
        return cls(found[1], int(day.timestamp()) // SECONDS + int(found[3]))

    @property
    def path(self) -> str:
        """Its folder below the root."""
        return f"{self.date_path}/hour={self.hour % _HOURS:02d}"

    @property
    def date_path(self) -> str:
        """The folder of its day below the root."""
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=self.hour)
        return f"{self.dataset}/date={day:%Y-%m-%d}"

    @property
    def begins(self) -> float:
        """Its first second."""
        return float(self.hour * SECONDS)

    @property
    def ends(self) -> float:
        """The second behind its last."""
        return float((self.hour + 1) * SECONDS)

    @property
    def day_ends(self) -> float:
        """The second behind the last of its day."""
        return float((self.hour // _HOURS + 1) * _HOURS * SECONDS)


def partitions_between(dataset: str, first: float, behind: float) -> list[Partition]:
    """The partitions that hold times in [first, behind), oldest first."""
    hours = range(math.floor(first / SECONDS), math.ceil(behind / SECONDS))
    return [Partition(dataset, hour) for hour in hours]


FINAL = "settled"
COMPACT = "compact"
PART = "part"
KINDS = (FINAL, COMPACT, PART)
"""In reading order: of two rows of one click, that in the first part counts."""

_DIGITS = 32
_NAME = re.compile(r"(settled|compact|part)-([0-9a-f]{32})-(\d+)(?:-([0-9a-f]{8}))?\.parquet")


@dataclass(frozen=True, slots=True)
class Part:
    """One file: `digest` begins the SHA-256 of its bytes, `mark` says what a final part holds.

    The name follows from the content, so that writing the same rows again changes nothing, and
    any damage shows.
    """

    partition: Partition
    kind: str
    digest: str
    rows: int
    mark: str = ""

    @classmethod
    def of(cls, partition: Partition, kind: str, data: bytes, rows: int, mark: str = "") -> Self:
        """The part that these bytes make."""
        return cls(partition, kind, digest_of(data), rows, mark)

    @classmethod
    def of_path(cls, path: str) -> Self | None:
        """The part at a path; None if the path is that of no part."""
        partition = Partition.of_path(path)
        found = _NAME.fullmatch(path.rpartition("/")[2])
        if partition is None or found is None:
            return None
        return cls(partition, found[1], found[2], int(found[3]), found[4] or "")

    @property
    def path(self) -> str:
        """Its path below the root."""
        mark = self.mark and f"-{self.mark}"
        name = f"{self.kind}-{self.digest}-{self.rows}{mark}.parquet"
        return f"{self.partition.path}/{name}"

    @property
    def order(self) -> tuple[int, str]:
        """Its place among the parts of the partition."""
        return KINDS.index(self.kind), self.digest


def digest_of(data: bytes) -> str:
    """The first half of the SHA-256 in hexadecimal digits."""
    return sha256(data).hexdigest()[:_DIGITS]


SCHEMA_VERSION = 2
"""Of a part with fields; others are of version 1."""

_VERSION = b"sirocco.schema_version"
_REQUIRED: Mapping[str, Mapping[str, Any]] = {
    CLICKS: CLICK_COLUMNS,
    CONVERSIONS: CONVERSION_COLUMNS,
}

Wanted = Callable[[str], bool]


def everything(_: str) -> bool:
    """Wants every column."""
    return True


def encode_part(table: Any) -> bytes:
    """The table as Parquet, its categories as plain strings."""
    has_fields = any(name.startswith(FIELD) for name in table.schema.names)
    version = str(SCHEMA_VERSION if has_fields else 1).encode()
    plain = _plain(table).replace_schema_metadata({_VERSION: version})
    categories = [
        field.name
        for field in plain.schema
        if field.type == TEXT or field.name.startswith(BEHAVIOUR)
    ]
    numbers = [name for name in plain.schema.names if name not in {*categories, CLICK_ID}]
    sink = pa.BufferOutputStream()
    pq.write_table(
        plain,
        sink,
        compression="zstd",
        use_dictionary=categories,
        use_byte_stream_split=numbers,
        row_group_size=max(1, len(plain)),
        write_statistics=False,
    )
    return bytes(sink.getvalue())


def decode_part(data: bytes, dataset: str, wanted: Wanted = everything) -> Any:
    """The wanted columns of a part; strings other than ids as categories.

    Raises DamagedPart, or NewerPart.
    """
    try:
        return _decoded(data, dataset, wanted)
    except (pa.ArrowException, OSError) as error:
        raise DamagedPart(f"not readable as Parquet: {error}") from error


def _decoded(data: bytes, dataset: str, wanted: Wanted) -> Any:
    source = pa.BufferReader(data)
    schema = pq.read_schema(source)
    version = (schema.metadata or {}).get(_VERSION, b"")
    if not version.isdigit():
        raise DamagedPart("no schema_version")
    if int(version) > SCHEMA_VERSION:
        raise NewerPart(version.decode(), SCHEMA_VERSION)
    if (name := wrong_column(schema, _REQUIRED[dataset])) is not None:
        raise DamagedPart(f"column {name!r} is missing, unknown or of another type")
    texts = [field.name for field in schema if field.type == TEXT]
    file = pq.ParquetFile(source, read_dictionary=texts)
    return file.read(columns=list(filter(wanted, schema.names)), use_threads=False)


def _plain(table: Any) -> Any:
    fields = [
        (field.name, TEXT if field.type == CATEGORY else field.type) for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


_ATTEMPTS = 10

_log = logging.getLogger(__name__)

Listing = dict[Partition, list[Part]]


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What a partition held: its readable parts in reading order, and the table of each."""

    parts: list[Part]
    tables: list[Any]


class PartStore:
    """The parts in a folder. What is returned as written is durable."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def write(self, partition: Partition, kind: str, table: Any, mark: str = "") -> Part:
        """Write the rows as one part; the same rows make the same part."""
        data = encode_part(table)
        part = Part.of(partition, kind, data, len(table), mark)
        self._folder.write(part.path, data)
        return part

    def replace(self, old: Sequence[Part], kind: str, table: Any, mark: str = "") -> None:
        """Write all rows of the old parts as one part, then delete the old ones.

        Whoever stops in between leaves rows twice, and readers count them once.
        """
        new = self.write(old[0].partition, kind, table, mark)
        for part in old:
            if part.path != new.path:
                self._folder.delete(part.path)

    def list(self, path: str) -> Listing:
        """The parts below a path, by partition, oldest first; of each in reading order."""
        found: Listing = defaultdict(list)
        for entry in self._folder.entries(path):
            part = None if entry.size is None else Part.of_path(entry.path)
            if part is not None:
                found[part.partition].append(part)
        return {one: sorted(found[one], key=attrgetter("order")) for one in sorted(found)}

    def list_days(self, partitions: Sequence[Partition]) -> Listing:
        """The parts of these partitions, with one listing per day."""
        wanted = set(partitions)
        days = dict.fromkeys(partition.date_path for partition in partitions)
        found = (pair for day in days for pair in self.list(day).items())
        return {partition: parts for partition, parts in found if partition in wanted}

    def read(self, parts: Sequence[Part], wanted: Wanted = everything) -> Contents:
        """The listed parts of one partition, without those found damaged.

        Should another process have replaced one meanwhile, the partition is listed again.
        """
        for _ in range(_ATTEMPTS):
            contents = self._read_listed(parts, wanted)
            if contents is not None:
                return contents
            partition = parts[0].partition
            parts = self.list(partition.path).get(partition, [])
            if not parts:
                return Contents([], [])
        raise ClickLogUnavailable(f"{parts[0].partition.path} changes faster than it is read")

    def _read_listed(self, parts: Sequence[Part], wanted: Wanted) -> Contents | None:
        contents = Contents([], [])
        for part in parts:
            data = self._folder.read(part.path)
            if data is None:
                return None
            try:
                table = _opened(part, data, wanted)
            except DamagedPart as error:
                _log.error("%s is damaged, its rows are left out: %s", part.path, error)
                self._folder.move(part.path, f"{QUARANTINE}/{part.path}")
                continue
            contents.parts.append(part)
            contents.tables.append(table)
        return contents


def _opened(part: Part, data: bytes, wanted: Wanted) -> Any:
    # The digest comes first: a reader of Parquet must never see bytes that nobody wrote.
    if digest_of(data) != part.digest:
        raise DamagedPart(f"{len(data)} bytes whose digest is not that of the name")
    table = decode_part(data, part.partition.dataset, wanted)
    if len(table) != part.rows:
        raise DamagedPart(f"{len(table)} rows, not the {part.rows} of the name")
    return table
