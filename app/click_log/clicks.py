"""Closed clicks and conversions of one target as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.rows import (
    BEHAVIOUR,
    BUCKET,
    CAMPAIGN,
    CATEGORY,
    CLICK_ID,
    CLICKED_AT,
    FEATURE,
    FIELD,
    ID_TYPE,
    PROBABILITY,
    SCORE,
    hash_ids,
)
from calibrators.fields.columns import FieldColumns
from calibrators.fields.sums import OTHER, FieldColumn
from calibrators.samples import Floats, Integers
from pccem import Categorical, Clicks, Column, Features

Rows = NDArray[np.int32]

_CONVERTED_AT = "converted_at"


@dataclass(frozen=True, slots=True, eq=False)
class LoggedConversions:
    """m different conversions by time; `rows`, (m,), are places in `click_ids`, each id once."""

    click_ids: Any
    rows: Rows
    converted_at: Floats

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, tables: Sequence[Any]) -> Self:
        """The conversions of tables of (click_id, time), each pair once."""
        renamed = [table.rename_columns([CLICK_ID, _CONVERTED_AT]) for table in tables]
        schema = pa.schema([(CLICK_ID, ID_TYPE), (_CONVERTED_AT, pa.float64())])
        table = pa.concat_tables([schema.empty_table(), *renamed])
        ids = table[CLICK_ID].combine_chunks().dictionary_encode()
        return cls(ids.dictionary, *_each_once(np.asarray(ids.indices), table[_CONVERTED_AT]))

    def with_others(self, others: "LoggedConversions") -> "LoggedConversions":
        """Both, a conversion that both know once."""
        return LoggedConversions.of([self._table(), others._table()])

    def rows_among(self, click_ids: Any) -> Rows:
        """Each conversion's click as its place, (m,), in a column of different ids; -1 without."""
        # The smaller side is hashed: the conversions are few beside the clicks.
        found = pc.fill_null(pc.index_in(click_ids, value_set=self.click_ids), -1).to_numpy()
        places = np.full(len(self.click_ids), -1, np.int32)
        clicks = np.flatnonzero(found >= 0)
        places[found[clicks]] = clicks
        return places[self.rows]

    def _table(self) -> Any:
        return pa.table({CLICK_ID: self.click_ids.take(self.rows), "time": self.converted_at})


def _each_once(rows: Rows, converted_at: Any) -> tuple[Rows, Floats]:
    times = converted_at.to_numpy()
    order = np.lexsort((rows, times))
    rows, times = rows[order], times[order]
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]) | (times[1:] != times[:-1])
    return rows[fresh], times[fresh]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedClicks:
    """n clicks of one target by (clicked_at, click_id), each id once.

    Attributes
    ----------
    clicks : the clicks; campaigns and categories are sorted and in use.
    click_ids : (n,) Arrow column of their ids; empty where several workers have read them.
    probabilities : (n,) what the atlas in force gave when each was closed; nan if nothing did.
    final : the conversions that are written into the clicks' own rows.
    total : clicks that the log holds; more than n where a sample was asked for.
    fields : the fields that any of them has.
    buckets : (n,) the bucket of each one's unit, -1 where none is known.
    """

    clicks: Clicks
    click_ids: Any
    probabilities: Floats
    final: LoggedConversions
    total: int
    fields: FieldColumns = field(default_factory=dict)
    buckets: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.clicks)

    def rows_in(self, other: "LoggedClicks") -> Rows:
        """The place of each in other clicks, (n,); -1 of those that are not there."""
        found = pc.fill_null(pc.index_in(self.click_ids, value_set=other.click_ids), -1)
        return np.asarray(found.to_numpy(), np.int32)

    def table(self, target: str, **more: Floats) -> Any:
        """As `of` takes it, without features, with hashes in the place of ids, and more columns."""
        clicks, fields = self.clicks, self.fields.items()
        return pa.table(
            {
                CLICK_ID: hash_ids(self.click_ids),
                CAMPAIGN: _coded(clicks.rows, clicks.campaigns),
                CLICKED_AT: clicks.clicked_at,
                SCORE + target: clicks.scores,
                PROBABILITY + target: self.probabilities,
                BUCKET: self.buckets.astype(np.float64),
                **{FIELD + name: _coded(one.codes - 1, one.names[1:]) for name, one in fields},
                **more,
            }
        )

    @classmethod
    def of(cls, table: Any, target: str, final: LoggedConversions, total: int) -> Self:
        """The arrays of a table with one row per click in reading order."""
        campaign = _categories(table[CAMPAIGN])
        clicks = Clicks(
            _numbers(table[CLICKED_AT]),
            campaign.categories,
            campaign.codes,
            _numbers(table[SCORE + target]),
            _features(table),
        )
        probabilities = _numbers(table[PROBABILITY + target])
        more = (_fields(table), _buckets(table))
        return cls(clicks, table[CLICK_ID], probabilities, final, total, *more)


def _coded(codes: NDArray[np.integer[Any]], names: Sequence[str]) -> Any:
    """A column of names; a code below 0 is a missing one."""
    places = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(places, pa.array(names, pa.string()))


def _features(table: Any) -> Features:
    names = [name for name in table.schema.names if name.startswith((BEHAVIOUR, FEATURE))]
    return Features({name: _feature(table[name]) for name in names}, len(table))


def _fields(table: Any) -> FieldColumns:
    names = [name for name in table.schema.names if name.startswith(FIELD)]
    found = {name.removeprefix(FIELD): _categories(table[name]) for name in names}
    return {
        name: FieldColumn((OTHER, *column.categories), column.codes.astype(np.int64) + 1)
        for name, column in found.items()
    }


def _buckets(table: Any) -> Integers:
    if BUCKET not in table.schema.names:
        return np.full(len(table), -1)
    return np.nan_to_num(_numbers(table[BUCKET]), nan=-1.0).astype(np.int64)


def _feature(column: Any) -> Column:
    return _categories(column) if column.type == CATEGORY else _numbers(column)


def _numbers(column: Any) -> Floats:
    """Missing values are nan."""
    return np.asarray(column.to_numpy(), np.float64)


def _categories(column: Any) -> Categorical:
    """The dictionary column with its categories sorted, those that no row uses left out."""
    encoded = column.unify_dictionaries()
    indices = pa.chunked_array([chunk.indices for chunk in encoded.chunks], pa.int32())
    codes = pc.fill_null(indices, -1).to_numpy()
    names = encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else []
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(names))).tolist()
    ordered = sorted(used, key=names.__getitem__)
    # Behind the last code stands -1, which is where a missing value points.
    ranks = np.full(len(names) + 1, -1, np.int32)
    ranks[ordered] = np.arange(len(ordered))
    return Categorical(ranks[codes], tuple(names[code] for code in ordered))
