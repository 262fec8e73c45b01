"""Bins of many campaigns in one set of arrays: what an hour, a window or a shard holds; and the
history of a target, its tables by hour: what a refit learns from.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, pairwise
from math import ceil
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import GRID, Bins, GridSums, cell_means, fixed_sums
from calibrators.bins.codecs import (
    SEPARATOR,
    PackedColumn,
    campaign_of,
    group_totals,
    sorted_rows,
    spans_of,
    sum_by_key,
)
from calibrators.bins.packed_table import (
    PackedTable,
    fit_in_place,
    new_rows,
    sum_in_spans,
    sum_packed,
    sums_packed,
)
from calibrators.peers import ALONE, Peers
from calibrators.samples import (
    Floats,
    Integers,
    all_obey,
    check_equal_lengths,
    check_not_negative,
    check_unit_interval,
    let_go,
    places_of,
)

_CELLS = GRID.size

_BLOCK = 256
"""Campaigns that are summed at once, and of a table out of many."""
_SPARSE_BLOCK = 2 * 1024
"""The same where each has few cells: of many hours these come to tens of megabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class BinsTable(GridSums):
    """Bins of many campaigns, compressed by rows.

    `campaigns` ascend, shape (c,); the cells of campaign i stand at offsets[i]:offsets[i + 1] of
    `cells`, shape (m,), and of their three `sums`, shape (3, m). Immutable, additive, same bits
    for any order or split of events.
    """

    campaigns: tuple[str, ...]
    offsets: Integers
    cells: Integers
    sums: Integers

    @classmethod
    def empty(cls) -> Self:
        """A table of no campaigns."""
        return cls._made((), *(np.zeros(shape, np.int64) for shape in (1, 0, (3, 0))))

    @classmethod
    def from_columns(
        cls,
        campaigns: Sequence[str],
        rows: Integers,
        scores: Floats,
        counts: Floats,
        positives: Floats,
    ) -> Self:
        """The table of n events.

        rows[i] is the index into `campaigns` of event i, counts[i] its weight (1 for an
        impression, 0 for a click that only adds its positive), positives[i] what it adds to the
        positives. Raises ValueError on unequal lengths, a score outside [0, 1], a negative count.
        """
        checked = check_unit_interval("scores", scores)
        weights = check_not_negative("counts", counts)
        added = check_not_negative("positives", positives)
        check_equal_lengths(rows=rows, scores=checked, counts=weights, positives=added)
        known = (rows >= 0) & (rows < len(campaigns))
        all_obey("rows", rows, known, f"there are {len(campaigns)} campaigns")
        cells = GRID.cells_of(checked)
        return cls.from_cells(campaigns, rows, cells, fixed_sums(checked, weights, added))

    @classmethod
    def from_cells(
        cls, campaigns: Sequence[str], rows: Integers, cells: Integers, sums: Integers
    ) -> Self:
        """The table of n cells with their sums, (3, n), in fixed point; of equal ones the total.

        rows[i] is the index into `campaigns` of cell i, and rows, cells and sums are valid. Raises
        OverflowError where a total is 9.2e9 or more.
        """
        names, new_rows = sorted_rows(campaigns)
        return cls._of(names, *sum_by_key(new_rows[rows] * _CELLS + cells, sums))

    @property
    def has_versions(self) -> bool:
        """Whether any campaign is of a named version of the model: see `model_versions`."""
        return SEPARATOR in "".join(self.campaigns)

    def without_versions(self) -> "BinsTable":
        """The same with the campaigns' own names: versions are summed."""
        return self.renamed([*map(campaign_of, self.campaigns)]) if self.has_versions else self

    @classmethod
    def merge(cls, tables: Iterable["BinsTable"]) -> Self:
        """The sum of any number of tables."""
        return cls.merge_packed([table.packed for table in tables])

    @classmethod
    def merge_packed(cls, tables: Iterable[PackedTable]) -> Self:
        """The sum of any number of packed tables, which are not unpacked first."""
        listed = [table for table in tables if table.campaigns]
        if not listed:
            return cls.empty()
        if len(listed) == 1:
            return cls._made(listed[0].campaigns, *listed[0].columns())
        names, rows = new_rows(listed)
        if fit_in_place(listed, names):
            return cls.of_all(names, *sum_packed(listed, rows, range(len(names))))
        return cls._summed(listed, names, rows)

    @classmethod
    def merge_in_blocks(cls, tables: Iterable[PackedTable]) -> Iterator["BinsTable"]:
        """`merge_packed`, a few campaigns at a time where there are many."""
        listed = [table for table in tables if table.campaigns]
        names, rows = new_rows(listed)
        if len(listed) > 1 and fit_in_place(listed, names):
            for block in spans_of(names, _BLOCK):
                yield cls.of_all(names[block.start : block.stop], *sum_packed(listed, rows, block))
            return
        for block in spans_of(names, _SPARSE_BLOCK):
            bounds = [np.searchsorted(row, (block.start, block.stop)).tolist() for row in rows]
            yield cls.merge_packed(
                table.part(*span) for table, span in zip(listed, bounds, strict=True)
            )
            let_go()

    @classmethod
    def _summed(
        cls, tables: Sequence[PackedTable], names: tuple[str, ...], rows: Sequence[Integers]
    ) -> Self:
        keys = [table.places(row) for table, row in zip(tables, rows, strict=True)]
        sums = [table.columns()[2] for table in tables]
        if len(names) < sum(map(len, rows)):
            return cls._of(names, *sum_in_spans(list(zip(keys, sums, strict=True)), len(names)))
        # Tables without a campaign in common, such as shards, need no sum, only their order.
        lengths = np.concatenate([np.diff(table.offsets) for table in tables])
        order = _in_order_of_rows(np.concatenate(rows), lengths)
        return cls._of(names, np.concatenate(keys)[order], np.hstack(sums)[:, order])

    @classmethod
    def _of(cls, names: tuple[str, ...], keys: Integers, sums: Integers) -> Self:
        """From ascending keys row * _CELLS + cell; names without a cell are dropped."""
        offsets = np.searchsorted(keys, np.arange(len(names) + 1) * _CELLS)
        cells = keys - np.repeat(np.arange(len(names)) * _CELLS, np.diff(offsets))
        return cls.of_all(names, offsets, cells, sums)

    @classmethod
    def of_all(
        cls, names: tuple[str, ...], offsets: Integers, cells: Integers, sums: Integers
    ) -> Self:
        """From columns of all names; those without a cell are dropped."""
        held = np.diff(offsets) > 0
        if not held.all():
            names = tuple(compress(names, held.tolist()))
            offsets = np.append(offsets[:-1][held], offsets[-1])
        return cls._made(names, offsets, cells, sums)

    @classmethod
    def _made(
        cls, names: tuple[str, ...], offsets: Integers, cells: Integers, sums: Integers
    ) -> Self:
        for array in (offsets, cells, sums):
            array.setflags(write=False)
        return cls(names, offsets, cells, sums)

    def __len__(self) -> int:
        return len(self.campaigns)

    def __iter__(self) -> Iterator[tuple[str, Bins]]:
        for row, campaign in enumerate(self.campaigns):
            yield campaign, self._bins_at(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinsTable) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    @property
    def rows(self) -> Integers:
        """Index of the campaign of every cell, shape (m,)."""
        return np.repeat(np.arange(len(self.campaigns)), np.diff(self.offsets))

    def bins(self, campaign: str) -> Bins:
        """The bins of one campaign; empty ones for a campaign that is not in the table."""
        row = bisect_left(self.campaigns, campaign)
        if row == len(self.campaigns) or self.campaigns[row] != campaign:
            return Bins.empty()
        return self._bins_at(row)

    def _bins_at(self, row: int) -> Bins:
        span = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
        return Bins(self.cells[span], self.sums[:, span])

    def total(self) -> Bins:
        """The bins of all campaigns together: the target's."""
        return Bins.of_sums(*sum_by_key(self.cells, self.sums))

    def select(self, campaigns: Iterable[str]) -> "BinsTable":
        """The table of these campaigns only."""
        wanted = set(campaigns)
        return self.chosen(np.array([name in wanted for name in self.campaigns], dtype=bool))

    def chosen(self, campaigns: NDArray[np.bool_]) -> "BinsTable":
        """The table of the campaigns that are marked, (c,)."""
        lengths = np.diff(self.offsets)
        kept = np.repeat(campaigns, lengths)
        return BinsTable._made(
            tuple(compress(self.campaigns, campaigns.tolist())),
            np.concatenate(([0], np.cumsum(lengths[campaigns]))),
            self.cells[kept],
            self.sums[:, kept],
        )

    def renamed(self, names: Sequence[str]) -> "BinsTable":
        """The same rows by other names, (c,); those of one name are summed."""
        distinct, rows = sorted_rows(names)
        return BinsTable._of(
            distinct, *sum_by_key(rows[self.rows] * _CELLS + self.cells, self.sums)
        )

    def slices(self, cells: int) -> Iterator["BinsTable"]:
        """Views of consecutive campaigns that together are the table, each of about so many cells,
        a campaign more at most."""
        wanted = np.arange(0, len(self.cells), cells)
        bounds = np.unique(np.append(np.searchsorted(self.offsets, wanted), len(self)))
        for first, last in pairwise(bounds.tolist()):
            yield view_of(self, first, last)

    def samples(self) -> tuple[Floats, Floats, Floats, Integers]:
        """Mean score, mean outcome, weight and row of each cell that holds samples, (k,) each.

        The rules are those of `Bins.samples`.
        """
        held = self.counts > 0
        return *cell_means(self.cells, self.sums), self.rows[held]

    def totals(self) -> tuple[Floats, Floats]:
        """Samples and positives of each campaign, shape (c,) each, counted as `samples` does."""
        if not self.campaigns:
            return np.empty(0), np.empty(0)
        starts = self.offsets[:-1]
        matched = np.minimum(self.positives, self.counts)
        return (group_totals(self.counts, starts), group_totals(matched, starts))

    def outcomes(self) -> tuple[Floats, Floats]:
        """Predicted and true positives of each campaign, shape (c,) each: what the scores add up
        to, and what came."""
        if not self.campaigns:
            return np.empty(0), np.empty(0)
        starts = self.offsets[:-1]
        return group_totals(self.score_sums, starts), group_totals(self.positives, starts)

    @classmethod
    def in_a_row(cls, tables: Iterable["BinsTable"]) -> Self:
        """The table of all tables' campaigns, which ascend from each table to the next."""
        parts: list[BinsTable] = [cls.empty(), *tables]
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls._made(
            tuple(chain.from_iterable(part.campaigns for part in parts)),
            np.append(0, np.cumsum(lengths)),
            np.concatenate([part.cells for part in parts]),
            np.hstack([part.sums for part in parts]),
        )

    @property
    def packed(self) -> PackedTable:
        """The same columns as what stays packed has them."""
        return PackedTable(
            self.campaigns, self.offsets, PackedColumn(self.cells), (*map(PackedColumn, self.sums),)
        )

    def to_bytes(self, seed: int = 0) -> bytes:
        """The table's bytes; their layout is that of `PackedTable`."""
        return self.packed.to_bytes(seed)

    @classmethod
    def from_bytes(cls, data: bytes, seed: int = 0) -> Self:
        """The table that `to_bytes` wrote with the same seed; ValueError on any other bytes."""
        table = PackedTable.from_bytes(data, seed=seed)
        return cls._made(table.campaigns, *table.columns())


def view_of(table: BinsTable, first: int, behind: int) -> BinsTable:
    """The campaigns of the table in [first, behind), by number."""
    offsets = table.offsets[first : behind + 1]
    span = slice(offsets[0], offsets[-1])
    names = table.campaigns[first:behind]
    return BinsTable(names, offsets - offsets[0], table.cells[span], table.sums[:, span])


def _in_order_of_rows(rows: Integers, lengths: Integers) -> Integers:
    """Where each entry comes from when blocks of these lengths are put in the order of rows."""
    order = np.argsort(rows)
    return places_of((np.cumsum(lengths) - lengths)[order], lengths[order])


def sums_of_block(block: Mapping[int, BinsTable], spans: Sequence[range]) -> tuple[BinsTable, ...]:
    """The sum of a block's tables over each of the spans."""
    in_all = {hour for hour in block if all(hour in span for span in spans)}
    shared = BinsTable.merge(block[hour] for hour in in_all)
    own = ([hour for hour in block if hour in span and hour not in in_all] for span in spans)
    return tuple(BinsTable.merge((shared, *(block[hour] for hour in hours))) for hours in own)


def sums_of_packed(
    tables: Mapping[int, PackedTable], spans: Sequence[range]
) -> Iterator[tuple[BinsTable, ...]] | None:
    """The same of packed tables, which are not unpacked first, in blocks of campaigns; None where
    they are too sparse for that to pay, or a sum could overflow."""
    hours = sorted(hour for hour, table in tables.items() if table.campaigns)
    listed = [tables[hour] for hour in hours]
    names, rows = new_rows(listed)
    if not fit_in_place(listed, names):
        return None
    choices = [{place for place, hour in enumerate(hours) if hour in span} for span in spans]
    return (
        tuple(
            BinsTable.of_all(names[block.start : block.stop], *columns)
            for columns in sums_packed(listed, rows, block, choices)
        )
        for block in spans_of(names, _BLOCK)
    )


HourTables = Mapping[int, BinsTable]
"""Bins of some campaigns by hour, counted since 1970."""


class TablesByField(Protocol):
    """Bins by values of fields, of pairs of them, and of campaigns, as
    `calibrators.fields.sums.FieldTables` has them."""

    @property
    def fields(self) -> Mapping[str, BinsTable]:
        """By field."""

    @property
    def pairs(self) -> Mapping[str, BinsTable]:
        """By pair of fields."""

    @property
    def campaigns(self) -> Mapping[str, BinsTable]:
        """By field, of campaigns."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Bins by hour up to a moment, in blocks of campaigns.

    as_of : the moment in hours since 1970; nothing that came later is in the bins.
    blocks : the tables of one block after the other, none with a campaign of another's, so that
        only one of them needs to be in memory at a time. Gone through any number of times.
    fields : the tables by field of all campaigns in an hour; None where no field is declared.
    peers : the workers that have the blocks between them; these are those of one.
    """

    as_of: float
    blocks: Iterable[HourTables]
    fields: Callable[[int], TablesByField] | None = None
    peers: Peers = ALONE

    @property
    def newest(self) -> int:
        """The newest hour that has begun: when as_of is a whole hour, the one just closed."""
        return ceil(self.as_of) - 1

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """The blocks with no other hours than these."""
        for block in self.blocks:
            yield {hour: table for hour, table in block.items() if first <= hour < behind}

    def windows(self, first: int, behind: int) -> Iterator[BinsTable]:
        """The sum over these hours, block after block."""
        for block in self.between(first, behind):
            yield BinsTable.merge(block.values())

    def sums(self, *spans: range) -> Iterator[tuple[BinsTable, ...]]:
        """The sums over several spans of hours, block after block; what the spans share is summed
        once."""
        if len(spans) == 1:
            yield from ((table,) for table in self.windows(spans[0].start, spans[0].stop))
            return
        first, behind = min(span.start for span in spans), max(span.stop for span in spans)
        for block in self.between(first, behind):
            yield sums_of_block(block, spans)


@dataclass(frozen=True, slots=True, eq=False)
class ChangedHistory(History):
    """A history whose blocks are changed, anew whenever they are gone through."""

    of: History = field(kw_only=True)
    change: Callable[[HourTables], HourTables] = field(kw_only=True)

    @classmethod
    def by(cls, change: Callable[[HourTables], HourTables], of: History) -> Self:
        """Of another one."""
        blocks = _ChangedBlocks(change, of.blocks)
        return cls(of.as_of, blocks, of.fields, of.peers, of=of, change=change)

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """See `History`; no other hours are changed."""
        return map(self.change, self.of.between(first, behind))


@dataclass(frozen=True, slots=True)
class _ChangedBlocks:
    change: Callable[[HourTables], HourTables]
    of: Iterable[HourTables]

    def __iter__(self) -> Iterator[HourTables]:
        return map(self.change, self.of)
