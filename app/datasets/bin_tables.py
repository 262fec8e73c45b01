"""Tables of bins in files: hour, target, campaign, fields, cell, count, score_sum, positives.

Whatever engine has made them (docs/lake.md has the SQL), and as `sirocco lake` writes them.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet

from app.datasets.options import EARLIEST, LATEST
from app.datasets.parts import Where
from app.datasets.reading import LogReader
from app.datasets.tables import LogRows, in_one, require_once
from app.errors import CommandError
from calibrators.bins.table import BinsTable
from calibrators.fields.bin_rows import CELL_RULE, SUM_RULE, SUMS, BinRows
from calibrators.fields.sums import FieldColumn

FIRST_HOUR, HOURS_END = int(EARLIEST // 3600), int(LATEST // 3600)
"""The years 2000 to 2099, in hours since 1970."""

_HOURS: Final = b"sirocco.hours"
_HOUR, _TARGET, _CAMPAIGN, _CELL = "hour", "target", "campaign", "cell"
_HOUR_RULE: Final = (
    f"an hour is floor(epoch seconds / 3600), from {FIRST_HOUR} to {HOURS_END - 1}: 2000 to 2099"
)


class TargetBins(NamedTuple):
    """All rows of one target and hour that a file has."""

    target: str
    hour: int
    rows: BinRows

    @classmethod
    def of_arrow(cls, table: Any, fields: Sequence[str]) -> "TargetBins":
        """The inverse of `to_arrow`, of at least one row, with these of the fields."""
        columns = [_numbered(table[name]) for name in (_TARGET, _CAMPAIGN, *fields)]
        sums = np.stack([table[name].to_numpy() for name in SUMS])
        cells = table[_CELL].to_numpy().astype(np.int64)
        rows = BinRows(columns[1], dict(zip(fields, columns[2:], strict=True)), cells, sums)
        return cls(columns[0].names[columns[0].codes[0]], table[_HOUR][0].as_py(), rows)

    def as_json(self) -> Iterator[dict[str, Any]]:
        """Each row as `POST /v1/admin/bins` takes it."""
        rows, campaigns = self.rows, self.rows.campaigns
        columns = rows.fields.items()
        places = zip(rows.cells.tolist(), rows.sums.T.tolist(), strict=True)
        for place, (cell, sums) in enumerate(places):
            said = {name: names[codes[place]] for name, (names, codes) in columns}
            values = {name: value for name, value in said.items() if value}
            yield {
                _HOUR: self.hour,
                _TARGET: self.target,
                _CAMPAIGN: campaigns.names[campaigns.codes[place]],
                _CELL: cell,
                **dict(zip(SUMS, sums, strict=True)),
                **({"fields": values} if values else {}),
            }

    def to_arrow(self) -> Any:
        """As a table with the columns of a file."""
        rows, n = self.rows, len(self.rows)
        columns = {
            _HOUR: pa.array(np.full(n, self.hour, np.int64)),
            _TARGET: _words(FieldColumn((self.target,), np.zeros(n, np.int64))),
            _CAMPAIGN: _words(rows.campaigns),
            **{name: _words(column) for name, column in rows.fields.items()},
            _CELL: pa.array(rows.cells.astype(np.int32)),
            **dict(zip(SUMS, map(pa.array, rows.sums), strict=True)),
        }
        return pa.table(columns)


def _words(column: FieldColumn) -> Any:
    codes = column.codes.astype(np.int32)
    return pa.DictionaryArray.from_arrays(codes, pa.array(column.names, pa.string()))


def _numbered(column: Any) -> FieldColumn:
    encoded = in_one(column)
    codes = np.asarray(encoded.indices).astype(np.int64)
    return FieldColumn(tuple(encoded.dictionary.to_pylist()), codes)


def write_bins(file: Any, tables: Iterable[TargetBins], fields: Sequence[str]) -> None:
    """A table of bins as Parquet, a row group for each target and hour, which its metadata list."""
    nothing = BinRows.of_table(BinsTable.empty(), fields)
    schema = TargetBins("", 0, nothing).to_arrow().schema
    listed = []
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for found in tables:
            writer.write_table(found.to_arrow(), row_group_size=max(1, len(found.rows)))
            listed.append([found.target, found.hour])
        writer.add_key_value_metadata({_HOURS: orjson.dumps(listed)})


def hours_of(file: Any) -> list[tuple[str, int]]:
    """Target and hour of each row group of a file that `write_bins` wrote."""
    metadata = pyarrow.parquet.read_metadata(file).metadata
    return [(target, hour) for target, hour in orjson.loads(metadata[_HOURS])]


def bins_of_group(file: Any, group: int, fields: Sequence[str]) -> TargetBins:
    """One row group of such a file, with these of its fields."""
    return TargetBins.of_arrow(pyarrow.parquet.ParquetFile(file).read_row_group(group), fields)


def fields_of_table(fields: Sequence[str]) -> tuple[str, ...]:
    """The same, a column each; a `CommandError` where a table of bins has a column of that name."""
    for name in {_HOUR, _TARGET, _CAMPAIGN, _CELL, *SUMS}.intersection(fields):
        raise CommandError(f"--fields {name}: a table of bins has a column of this name itself")
    return tuple(fields)


class BinsDigest:
    """The digest of bins: of each target and hour in turn, the bytes of its `BinsTable`.

    Two sets of bins have one digest where a refit would see no difference, whoever made them.
    """

    def __init__(self) -> None:
        self._sum = sha256()

    def add(self, target: str, hour: int, table: BinsTable) -> None:
        """The next target and hour, ascending; an hour without bins is left out."""
        if len(table):
            self._sum.update(f"{target} {hour}\n".encode() + table.to_bytes())

    @property
    def hex(self) -> str:
        """Of what was added so far."""
        return self._sum.hexdigest()


def read_bins(where: Where, fields: Sequence[str] = ()) -> Iterator[TargetBins]:
    """The bins of one or more files, target by target and hour by hour as they stand.

    Only the hour at hand is in memory. A `CommandError` names file, row, column, value and rule;
    rows of one target and hour must stand together.
    """
    words = (_TARGET, _CAMPAIGN, *fields_of_table(fields))
    required = (*words, _HOUR, _CELL, *SUMS)

    def choose(file: str, names: Sequence[str]) -> list[str]:
        for name in required:
            if name not in names:
                raise CommandError(
                    f"{file} has no column {name!r}; a table of bins has {', '.join(required)}"
                )
            require_once(file, names, name)
        return [*required]

    types = {**dict.fromkeys(words, pa.string()), _HOUR: pa.int64(), _CELL: pa.int64()}
    types |= dict.fromkeys(SUMS, pa.int64())
    reader = LogReader(where, choose, types, words)
    seen: set[tuple[str, int]] = set()
    held: list[TargetBins] = []
    for batch, rows in reader.parsed(lambda rows: _of_rows(rows, fields)):
        for found in batch:
            if held and found[:2] != held[0][:2]:
                yield _together(held, fields)
                held = []
            if not held and found[:2] in seen:
                raise _apart(rows.file, found)
            seen.add(found[:2])
            held.append(found)
    yield _together(held, fields)


def _of_rows(rows: LogRows, fields: Sequence[str]) -> list[TargetBins]:
    """The rows of a batch, cut where target or hour changes."""
    hours = rows.column(_HOUR).integers(_HOUR_RULE)
    outside = (hours < FIRST_HOUR) | (hours >= HOURS_END)
    rows.column(_HOUR).refuse_where(outside, _HOUR_RULE)
    targets, codes = rows.column(_TARGET).categories("a target must have a name")
    names, campaigns = rows.column(_CAMPAIGN).categories("a campaign must have a name")
    found = BinRows(
        FieldColumn(names, campaigns.astype(np.int64)),
        {name: rows.column(name).field() for name in fields},
        rows.column(_CELL).integers(CELL_RULE),
        np.stack([rows.column(name).integers(SUM_RULE) for name in SUMS]),
    )
    for broken in found.broken():
        rows.column(broken.column).refuse_where(broken.rows, broken.rule)
    changes = (np.diff(hours) != 0) | (np.diff(codes) != 0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(hours)]
    return [
        TargetBins(targets[codes[start]], int(hours[start]), found.select(slice(start, end)))
        for start, end in pairwise(edges)
    ]


def _together(parts: Sequence[TargetBins], fields: Sequence[str]) -> TargetBins:
    """The sum of the parts of one target and hour, in the order of campaigns, fields and cells."""
    target, hour, _ = parts[0]
    try:
        total = BinsTable.merge(part.rows.table(fields) for part in parts)
    except OverflowError as error:
        raise CommandError(f"target {target}, hour {hour}: {error}") from error
    return TargetBins(target, hour, BinRows.of_table(total, fields))


def _apart(file: str, found: TargetBins) -> CommandError:
    return CommandError(
        f"{file}: rows of target {found.target!r} and hour {found.hour} stand in two places; sort"
        " the table by target and hour"
    )
