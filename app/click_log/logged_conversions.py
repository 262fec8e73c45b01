"""Conversions of one target as the click log knows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.columns import CLICK_ID, ID_TYPE

Floats = NDArray[np.float64]
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
