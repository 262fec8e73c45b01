"""A table of bins whose columns stay as they are packed in its bytes."""

import struct
from dataclasses import dataclass
from operator import lt
from typing import Self

import numpy as np

from calibrators.bins import SCHEMA_VERSION, check_grid
from calibrators.columns import PackedColumn, pack_column, unpack_column
from calibrators.grid import GRID
from calibrators.names import pack_names, unpack_names
from calibrators.samples import Integers

_HEADER = struct.Struct("<4sHBBII")
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
    def from_bytes(cls, data: bytes, like: Self | None = None) -> Self:
        """What `to_bytes` wrote, which it keeps; ValueError on any other bytes. Shares the
        campaigns with `like` where they are the same."""
        if len(data) < _HEADER.size:
            raise ValueError(f"a bins table needs {_HEADER.size} bytes, got {len(data)}")
        magic, version, octaves, bits, campaigns, length = _HEADER.unpack_from(data)
        check_grid("a bins table", magic == _MAGIC, version, octaves, bits)
        view = memoryview(data)
        names, named = _read_names(data, campaigns, like)
        offset = _HEADER.size + len(named)
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

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SBTB", schema_version u2, octaves u1, log2 of the cells in
        an octave u1, campaigns u4, cells u4; the names (`calibrators.names`); then the columns
        cells per campaign, cells, counts, score sums, positives (`calibrators.columns`)."""
        length = len(self)
        header = _HEADER.pack(
            _MAGIC, SCHEMA_VERSION, GRID.octaves, GRID.bits, len(self.campaigns), length
        )
        columns = (column.values() for column in (self.cells, *self.sums))
        packed = map(pack_column, (np.diff(self.offsets), *columns))
        return b"".join((header, pack_names(self.campaigns), *packed))

    def __len__(self) -> int:
        return len(self.cells.entries)

    def columns(self) -> Columns:
        """The columns unpacked."""
        sums = np.empty((3, len(self)), np.int64)
        for row, column in zip(sums, self.sums, strict=True):
            column.values(out=row)
        return self.offsets, self.cells.values(), sums

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


def _read_names(data: bytes, count: int, like: PackedTable | None) -> tuple[tuple[str, ...], bytes]:
    # The hours of a shard mostly have the same campaigns: comparing bytes is far cheaper.
    known = b"" if like is None or len(like.campaigns) != count else like.named
    if like is not None and known and data.startswith(known, _HEADER.size):
        return like.campaigns, known
    names, end = unpack_names(memoryview(data), _HEADER.size, count)
    if not all(map(lt, names, names[1:])):
        raise ValueError("campaigns of a bins table must ascend")
    return names, data[_HEADER.size : end]


def _check_order(offsets: Integers, cells: PackedColumn) -> None:
    if cells.largest >= _CELLS:
        raise ValueError(f"cell {cells.largest}: the grid has cells 0 to {_CELLS - 1}")
    falls = np.flatnonzero(cells.entries[1:] <= cells.entries[:-1]) + 1
    if not (offsets[np.searchsorted(offsets, falls)] == falls).all():
        raise ValueError("cells of a bins table must ascend with each campaign")
