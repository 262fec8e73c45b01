"""Rows of bins: what a GROUP BY over campaign, fields and cell gives, of any engine.

A row has a cell of the grid and three sums in fixed point, count, score_sum and positives. Rows add
up to the very bins of the events that they were made of.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import GRID, cell_means
from calibrators.bins.codecs import LIMIT, from_fixed
from calibrators.bins.table import BinsTable
from calibrators.fields.columns import FieldColumns, chosen, encoded
from calibrators.fields.sums import SEPARATOR, FieldColumn, FieldTables
from calibrators.samples import Floats, Integers

SUMS: Final = ("count", "score_sum", "positives")
CELL_RULE: Final = f"a cell is a whole number from 0 to {GRID.size - 1}"
SUM_RULE: Final = "a sum is a whole number of billionths, floor(x * 1e9 + 0.5), from 0 to 9.2e18"
_MEAN_RULE: Final = (
    "score_sum / count must lie in the cell; both are in billionths, floor(x * 1e9 + 0.5)"
)

_SLACK: Final = 1e-6
"""Rounded sums of weights from 0.001 up are no further from their cell than this share of it."""


class BrokenRows(NamedTuple):
    """Rows, a mask of (n,), that break the rule of a column."""

    column: str
    rows: NDArray[np.bool_]
    rule: str


@dataclass(frozen=True, slots=True, eq=False)
class BinRows:
    """n rows of one target and hour.

    campaigns : of which campaign each is.
    fields : its values by field; of a field that is not there each row's is other.
    cells : (n,), whole numbers below `GRID.size`.
    sums : (3, n), count, score sum and positives in fixed point.
    """

    campaigns: FieldColumn
    fields: FieldColumns
    cells: Integers
    sums: Integers

    def __len__(self) -> int:
        return len(self.cells)

    @classmethod
    def of_table(cls, table: BinsTable, fields: Sequence[str] = ()) -> Self:
        """The rows of a table whose campaigns are joined to their values, see `joined`."""
        parts = [name.rsplit(SEPARATOR, len(fields)) for name in table.campaigns]
        columns = [encoded([part[place] for part in parts]) for place in range(len(fields) + 1)]
        campaigns, *values = [FieldColumn(names, codes[table.rows]) for names, codes in columns]
        return cls(campaigns, dict(zip(fields, values, strict=True)), table.cells, table.sums)

    def broken(self) -> Iterator[BrokenRows]:
        """The rules that rows break, in the order of the columns."""
        outside = (self.cells < 0) | (self.cells >= GRID.size)
        yield BrokenRows("cell", outside, CELL_RULE)
        for name, column in zip(SUMS, self.sums, strict=True):
            yield BrokenRows(name, (column < 0) | (column > LIMIT), SUM_RULE)
        lower, upper = GRID.edges(np.where(outside, 0, self.cells))
        count, score_sum, positives = self.sums.astype(np.float64)
        slack = 1.0 + _SLACK * count
        low, high = score_sum < lower * count - slack, score_sum > upper * count + slack
        yield BrokenRows("score_sum", low | high, _MEAN_RULE)
        yield BrokenRows("positives", positives > count + slack, "positives are at most the count")

    def joined(self, fields: Sequence[str]) -> FieldColumn:
        """Campaigns joined to their values of these fields, in this order, by the separator."""
        column = self.campaigns
        for field in fields:
            column = column.beside(self._field(field))
        return column

    def table(self, fields: Sequence[str] = ()) -> BinsTable:
        """The bins by campaign, or by what is `joined` to them; OverflowError from 9.2e9 on."""
        return self._summed(self.joined(fields))

    def by_field(
        self, fields: Sequence[str], pairs: Sequence[str], predicted: Floats | None = None
    ) -> FieldTables:
        """The sums by field and pair; by the probabilities that maps give, (n,), or by score."""
        columns = {field: self._field(field) for field in fields}
        if predicted is None:
            return FieldTables.of(self.campaigns, columns, pairs, self._summed)
        counts, _, positives = from_fixed(self.sums)
        events = (predicted, counts, positives)
        return FieldTables.from_events(self.campaigns, columns, pairs, events)

    def digest(self, about: str) -> str:
        """Of what the rows add up to and what they are about, whatever their order."""
        fields = sorted(self.fields)
        content = "\n".join((about, *fields, "")).encode() + self.table(fields).to_bytes()
        return blake2b(content, digest_size=16).hexdigest()

    def means(self) -> Floats:
        """The mean score of each row, (n,); the lower end of its cell where it counts none."""
        means = GRID.edges(self.cells)[0].copy()
        held = self.sums[0] > 0
        means[held] = cell_means(self.cells[held], self.sums[:, held])[0]
        return means

    def select(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "BinRows":
        """The rows that a mask, places or a slice choose."""
        campaigns = FieldColumn(self.campaigns.names, self.campaigns.codes[rows])
        return BinRows(campaigns, chosen(self.fields, rows), self.cells[rows], self.sums[:, rows])

    def _field(self, name: str) -> FieldColumn:
        return self.fields.get(name) or FieldColumn.missing(len(self))

    def _summed(self, column: FieldColumn) -> BinsTable:
        return BinsTable.from_cells(*column, self.cells, self.sums)
