"""Bins of many campaigns in one set of arrays: what an hour, a window or a shard holds."""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from calibrators.bins import (
    SCHEMA_VERSION,
    Bins,
    cell_means,
    check_grid,
    fixed_sums,
    unpack_cells,
)
from calibrators.columns import pack_column, unpack_column
from calibrators.fixed_point import Part, group_totals, sum_by_key, sum_parts
from calibrators.grid import GRID
from calibrators.names import pack_names, unpack_names
from calibrators.samples import (
    Floats,
    Integers,
    check_equal_lengths,
    check_not_negative,
    check_unit_interval,
)

if TYPE_CHECKING:
    from calibrators.atlas import Atlas

_HEADER = struct.Struct("<4sHBBII")
_MAGIC = b"SBTB"
_CELLS = GRID.size


@dataclass(frozen=True, slots=True, eq=False)
class BinsTable:
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
        return cls._of((), np.empty(0, np.int64), np.empty((3, 0), np.int64))

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
        _check_rows(rows, len(campaigns))
        names, new_rows = _sorted_rows(campaigns)
        keys = new_rows[rows] * _CELLS + GRID.cells_of(checked)
        return cls._of(names, *sum_by_key(keys, fixed_sums(checked, weights, added)))

    @classmethod
    def merge(cls, tables: Iterable["BinsTable"]) -> Self:
        """The sum of any number of tables."""
        listed = [table for table in tables if table.campaigns]
        if not listed:
            return cls.empty()
        names, rows = _sorted_rows([name for table in listed for name in table.campaigns])
        splits = np.cumsum([len(table) for table in listed])[:-1]
        parts = [table._at(new) for table, new in zip(listed, np.split(rows, splits), strict=True)]
        if len(names) < len(rows):
            return cls._of(names, *sum_parts(parts))
        # Tables without a campaign in common, such as shards, need no sum, only their order.
        keys = np.concatenate([keys for keys, _ in parts])
        order = _blocks_in_order(rows, np.concatenate([np.diff(t.offsets) for t in listed]))
        return cls._of(names, keys[order], np.hstack([sums for _, sums in parts])[:, order])

    def _at(self, rows: Integers) -> Part:
        """Keys row * _CELLS + cell of the cells, with new rows for the campaigns, and the sums."""
        return np.repeat(rows * _CELLS, np.diff(self.offsets)) + self.cells, self.sums

    @classmethod
    def _of(cls, names: tuple[str, ...], keys: Integers, sums: Integers) -> Self:
        """From ascending keys row * _CELLS + cell; names without a cell are dropped."""
        rows = keys // _CELLS
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        offsets = np.append(starts, len(keys))
        cells = keys - rows * _CELLS
        for array in (offsets, cells, sums):
            array.setflags(write=False)
        return cls(tuple(names[row] for row in rows[starts].tolist()), offsets, cells, sums)

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

    @property
    def counts(self) -> Integers:
        """Samples of each cell in fixed point, shape (m,)."""
        counts: Integers = self.sums[0]
        return counts

    @property
    def score_sums(self) -> Integers:
        """Sum of the scores of each cell in fixed point, shape (m,)."""
        score_sums: Integers = self.sums[1]
        return score_sums

    @property
    def positives(self) -> Integers:
        """Sum of the outcomes of each cell in fixed point, shape (m,)."""
        positives: Integers = self.sums[2]
        return positives

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
        chosen = np.array([name in wanted for name in self.campaigns], dtype=bool)
        kept = np.repeat(chosen, np.diff(self.offsets))
        keys = self.rows[kept] * _CELLS + self.cells[kept]
        return BinsTable._of(self.campaigns, keys, self.sums[:, kept])

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
        return (
            group_totals(self.counts, starts),
            group_totals(matched, starts),
        )

    def calibrated(self, atlas: "Atlas") -> "BinsTable":
        """The same events, binned by the probability that the atlas gives their scores."""
        scores, outcomes, weights, rows = self.samples()
        probabilities = atlas.look_up(atlas.rows(self.campaigns)[rows], scores)
        return BinsTable.from_columns(
            self.campaigns, rows, probabilities, weights, outcomes * weights
        )

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SBTB", schema_version u2, octaves u1, log2 of the cells in
        an octave u1, campaigns u4, cells u4; the names (`calibrators.names`); then the columns
        cells per campaign, cells, counts, score sums, positives (`calibrators.columns`)."""
        header = _HEADER.pack(
            _MAGIC,
            SCHEMA_VERSION,
            GRID.octaves,
            GRID.bits,
            len(self.campaigns),
            len(self.cells),
        )
        lengths = np.diff(self.offsets)
        columns = (lengths, self.cells, self.counts, self.score_sums, self.positives)
        return b"".join((header, pack_names(self.campaigns), *map(pack_column, columns)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The table that `to_bytes` wrote; ValueError on any other bytes."""
        if len(data) < _HEADER.size:
            raise ValueError(f"a bins table needs {_HEADER.size} bytes, got {len(data)}")
        magic, version, octaves, bits, campaigns, cells = _HEADER.unpack_from(data)
        check_grid("a bins table", magic == _MAGIC, version, octaves, bits)
        view = memoryview(data)
        names, offset = unpack_names(view, _HEADER.size, campaigns)
        lengths, offset = unpack_column(view, offset, campaigns)
        # Each length on its own first: a sum of huge ones could wrap around to the right total.
        if not ((lengths >= 1) & (lengths <= cells)).all() or lengths.sum() != cells:
            raise ValueError(f"cells per campaign must be at least 1 and sum to {cells}")
        cell_column, sums, end = unpack_cells(view, offset, cells)
        if end != len(data):
            raise ValueError(f"a bins table ends at byte {end}, there are {len(data)}")
        keys = np.repeat(np.arange(campaigns), lengths) * _CELLS + cell_column
        if np.any(np.diff(keys) <= 0) or any(a >= b for a, b in pairwise(names)):
            raise ValueError("campaigns of a bins table, and their cells, must ascend")
        return cls._of(names, keys, sums)


def _check_rows(rows: Integers, campaigns: int) -> None:
    known = (rows >= 0) & (rows < campaigns)
    if not known.all():
        first = int(np.argmin(known))
        raise ValueError(f"rows[{first}] = {rows[first]}: there are {campaigns} campaigns")


def _sorted_rows(campaigns: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    names = tuple(sorted(set(campaigns)))
    row_of = {name: row for row, name in enumerate(names)}
    return names, np.fromiter((row_of[name] for name in campaigns), np.int64, len(campaigns))


def _blocks_in_order(rows: Integers, lengths: Integers) -> Integers:
    """Where each entry comes from when blocks of these lengths are put in the order of rows."""
    order = np.argsort(rows)
    taken = lengths[order]
    before = np.cumsum(lengths) - lengths
    return np.repeat(before[order] - (np.cumsum(taken) - taken), taken) + np.arange(taken.sum())
