"""A table of bins whose columns stay as they are packed in its bytes, and sums of many of them."""

import struct
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import chain
from operator import lt
from typing import Self
from zlib import crc32

import numpy as np

from calibrators.bins.bins import GRID, check_grid
from calibrators.bins.codecs import (
    LIMIT,
    PackedColumn,
    Part,
    merged_rows,
    pack_column,
    pack_names,
    sum_parts,
    unpack_column,
    unpack_names,
)
from calibrators.samples import Integers

SCHEMA_VERSION = 2

_HEADER = struct.Struct("<4sHBBII")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"SBTB"
_CELLS = GRID.size
_ALL = slice(None)

Columns = tuple[Integers, Integers, Integers]
"""Where the cells of each campaign begin, (c + 1,), the cells, (m,), and their sums, (3, m)."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedTable:
    """The columns of a `BinsTable` as they stand in its bytes, checked and not unpacked.

    The cells of campaign i stand at offsets[i]:offsets[i + 1] of `cells`, and of the three `sums`:
    counts, score sums, positives. `named` are the bytes of the names where it was read from some.
    """

    campaigns: tuple[str, ...]
    offsets: Integers
    cells: PackedColumn
    sums: tuple[PackedColumn, ...]
    named: bytes = b""

    @classmethod
    def from_bytes(cls, data: bytes, like: Self | None = None, seed: int = 0) -> Self:
        """What `to_bytes` wrote with the same seed, which it keeps; ValueError on any other bytes.
        Shares the campaigns with `like` where they are the same. Reads version 1, too."""
        if len(data) < _HEADER.size:
            raise ValueError(f"a bins table needs {_HEADER.size} bytes, got {len(data)}")
        magic, version, octaves, bits, campaigns, length = _HEADER.unpack_from(data)
        known = (1, SCHEMA_VERSION)
        check_grid("a bins table", magic == _MAGIC, version, octaves, bits, known)
        view = memoryview(data)
        start = _HEADER.size if version == 1 else _checked(view, seed)
        names, named = _read_names(data, start, campaigns, like)
        offset = start + len(named)
        lengths, offset = unpack_column(view, offset, campaigns)
        # Each length on its own first: a sum of huge ones could wrap around to the right total.
        if not ((lengths >= 1) & (lengths <= length)).all() or lengths.sum() != length:
            raise ValueError(f"cells per campaign must be at least 1 and sum to {length}")
        columns = []
        for _ in range(4):
            column, offset = PackedColumn.read(view, offset, length)
            columns.append(column)
        if offset != len(data):
            raise ValueError(f"a bins table ends at byte {offset}, there are {len(data)}")
        cells, *sums = columns
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        _check_order(offsets, cells)
        return cls(names, offsets, cells, tuple(sums), named)

    def to_bytes(self, seed: int = 0) -> bytes:
        """Little-endian bytes: magic "SBTB", schema_version u2, octaves u1, log2 of the cells in
        an octave u1, campaigns u4, cells u4; CRC-32 of all else u4, begun with the seed; the names;
        then the columns cells per campaign, cells, counts, score sums, positives (both as in
        `calibrators.bins.codecs`). Version 1 has no CRC-32."""
        length = len(self)
        header = _HEADER.pack(
            _MAGIC, SCHEMA_VERSION, GRID.octaves, GRID.bits, len(self.campaigns), length
        )
        columns = (column.values() for column in (self.cells, *self.sums))
        packed = map(pack_column, (np.diff(self.offsets), *columns))
        body = b"".join((pack_names(self.campaigns), *packed))
        return b"".join((header, _CHECKSUM.pack(crc32(body, crc32(header, seed))), body))

    def __len__(self) -> int:
        return len(self.cells.entries)

    def columns(self) -> Columns:
        """The columns unpacked."""
        sums = np.empty((3, len(self)), np.int64)
        for row, column in zip(sums, self.sums, strict=True):
            column.values(out=row)
        return self.offsets, self.cells.values(), sums

    def part(self, start: int, stop: int) -> "PackedTable":
        """The campaigns at these places; nothing is copied or unpacked."""
        span = slice(self.offsets[start], self.offsets[stop])
        cells, *sums = (PackedColumn(of.entries[span], of.unit) for of in (self.cells, *self.sums))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        return PackedTable(self.campaigns[start:stop], offsets, cells, tuple(sums))

    @property
    def largest(self) -> int:
        """The largest of all sums."""
        return max(column.largest for column in self.sums)

    def places(self, rows: Integers, chosen: slice = _ALL) -> Integers:
        """Row times the grid's size plus cell, of each cell of the chosen campaigns, when the rows
        of all campaigns, (c,), are these."""
        offsets = self.offsets[chosen.start : None if chosen.stop is None else chosen.stop + 1]
        cells = self.cells.entries[offsets[0] : offsets[-1]]
        return np.repeat(rows[chosen] * _CELLS, np.diff(offsets)) + cells


def _checked(view: memoryview, seed: int) -> int:
    """Where the names begin; ValueError if the checksum is wrong."""
    start = _HEADER.size + _CHECKSUM.size
    found = view[_HEADER.size : start]
    expected = crc32(view[start:], crc32(view[: _HEADER.size], seed))
    if found != _CHECKSUM.pack(expected):
        raise ValueError("the checksum of a bins table is wrong")
    return start


def _read_names(
    data: bytes, start: int, count: int, like: PackedTable | None
) -> tuple[tuple[str, ...], bytes]:
    # The hours of a shard mostly have the same campaigns: comparing bytes is far cheaper.
    known = b"" if like is None or len(like.campaigns) != count else like.named
    if like is not None and known and data.startswith(known, start):
        return like.campaigns, known
    names, end = unpack_names(memoryview(data), start, count)
    if not all(map(lt, names, names[1:])):
        raise ValueError("campaigns of a bins table must ascend")
    return names, data[start:end]


def _check_order(offsets: Integers, cells: PackedColumn) -> None:
    if cells.largest >= _CELLS:
        raise ValueError(f"cell {cells.largest}: the grid has cells 0 to {_CELLS - 1}")
    falls = np.flatnonzero(cells.entries[1:] <= cells.entries[:-1]) + 1
    if not (offsets[np.searchsorted(offsets, falls)] == falls).all():
        raise ValueError("cells of a bins table must ascend with each campaign")


_SPARSEST = 4
"""Tables are summed in place up to this many slots for each of their cells, others by sorting."""

_ROWS = 64
"""Campaigns in hand at once: their sums stay in the processor's cache."""

_SPAN = 1024
"""Campaigns whose cells are sorted at once, where tables are too sparse to be summed in place."""


def new_rows(tables: Sequence[PackedTable]) -> tuple[tuple[str, ...], list[Integers]]:
    """The names of all tables, and the rows of each table's campaigns among them."""
    # Many tables share their campaigns, which are gone through once.
    distinct = {id(table.campaigns): table.campaigns for table in tables}
    names, rows = merged_rows(list(distinct.values()))
    rows_of = dict(zip(distinct, rows, strict=True))
    return names, [rows_of[id(table.campaigns)] for table in tables]


def fit_in_place(tables: Sequence[PackedTable], names: Sequence[str]) -> bool:
    """Whether the tables are dense enough to be summed in place, and no sum can overflow."""
    disjoint = len(names) == sum(len(table.campaigns) for table in tables)
    dense = len(names) * GRID.size <= _SPARSEST * sum(map(len, tables))
    return dense and not disjoint and sum(table.largest for table in tables) < LIMIT


def sum_packed(
    tables: Sequence[PackedTable], rows: Sequence[Integers], campaigns: range
) -> Columns:
    """The sum over these rows of tables whose campaigns have these new rows, ascending.

    Cells whose sums are all 0 are left out. No sum may overflow: the caller looks.
    """
    return sums_packed(tables, rows, campaigns, [set(range(len(tables)))])[0]


def sums_packed(
    tables: Sequence[PackedTable],
    rows: Sequence[Integers],
    campaigns: range,
    choices: Sequence[Set[int]],
) -> list[Columns]:
    """`sum_packed` of several choices of the tables, by their numbers.

    From one choice to the next only what differs is added or taken away, so windows that slide by
    an hour cost little more than one of them.
    """
    edges = [*range(campaigns.start, campaigns.stop, _ROWS), campaigns.stop]
    bounds = [np.searchsorted(row, edges).tolist() for row in rows]
    sums = np.zeros((3, min(_ROWS, len(campaigns)) * GRID.size), np.int64)
    # What the tables hold of the rows: as long as a result can be.
    held = [int(t.offsets[b[-1]] - t.offsets[b[0]]) for t, b in zip(tables, bounds, strict=True)]
    found = [_Found(sum(held[number] for number in choice), campaigns) for choice in choices]
    for block, first in enumerate(edges[:-1]):
        summed: Set[int] = set()
        for choice, columns in zip(choices, found, strict=True):
            for number in sorted(summed ^ choice):
                chosen = slice(bounds[number][block], bounds[number][block + 1])
                change = np.subtract if number in summed else np.add
                _change(change, sums, tables[number], rows[number] - first, chosen)
            columns.take(sums, edges[block + 1] - first)
            summed = choice
        sums.fill(0)
    return [columns.all() for columns in found]


class _Found:
    """The columns of a sum, as they grow."""

    def __init__(self, cells: int, campaigns: range) -> None:
        # What is not written to takes no memory.
        longest = min(len(campaigns) * GRID.size, cells)
        self._columns = np.empty((4, longest), np.int64)
        self._offsets = [np.zeros(1, np.int64)]
        self._campaigns = len(campaigns)

    def take(self, sums: Integers, campaigns: int) -> None:
        """Add what the sums of the next campaigns hold."""
        end = self._offsets[-1][-1]
        self._offsets.append(end + _take(sums, self._columns[:, end:], campaigns))

    def all(self) -> Columns:
        ends = np.fromiter(chain.from_iterable(self._offsets), np.int64, self._campaigns + 1)
        return ends, self._columns[0, : ends[-1]], self._columns[1:, : ends[-1]]


def sum_in_spans(parts: Sequence[Part], campaigns: int) -> Part:
    """`sum_parts` of parts each of which ascends, a span of campaigns after the other; the keys are
    row * GRID.size + cell, the rows below `campaigns`."""
    edges = np.arange(0, max(campaigns, 1) + _SPAN, _SPAN) * GRID.size
    cuts = [np.searchsorted(keys, edges) for keys, _ in parts]
    found = []
    for span, edge in enumerate(edges[:-1]):
        spans = [slice(cut[span], cut[span + 1]) for cut in cuts]
        both = zip(parts, spans, strict=True)
        keys, sums = sum_parts([(keys[some] - edge, sums[:, some]) for (keys, sums), some in both])
        found.append((keys + edge, sums))
    return np.concatenate([keys for keys, _ in found]), np.hstack([sums for _, sums in found])


def _change(
    change: np.ufunc, sums: Integers, table: PackedTable, rows: Integers, chosen: slice
) -> None:
    span = slice(table.offsets[chosen.start], table.offsets[chosen.stop])
    places = table.places(rows, chosen)
    for total, column in zip(sums, table.sums, strict=True):
        change.at(total, places, column.values(span))


def _take(sums: Integers, into: Integers, campaigns: int) -> Integers:
    """Write what the sums hold into the columns; returns where each campaign's cells end."""
    held = np.flatnonzero(np.bitwise_or.reduce(sums) != 0)
    firsts = np.arange(campaigns + 1) * GRID.size
    bounds = np.searchsorted(held, firsts)
    end = len(held)
    np.subtract(held, np.repeat(firsts[:-1], np.diff(bounds)), out=into[0, :end])
    for total, column in zip(sums, into[1:], strict=True):
        # Clipping spares a copy, and nothing is out of bounds.
        total.take(held, out=column[:end], mode="clip")
    return bounds[1:]
