"""Bytes of tables: exact round trip; damaged ones are refused or read as sound tables."""

import struct
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import BinsTable
from calibrators.bins.bins import GRID
from calibrators.bins.codecs import pack_column, pack_names
from calibrators.bins.packed_table import PackedTable
from tests.calibrators.damage import assert_refused_or_sound
from tests.calibrators.grid_oracle import cell_of

IN_USE = (GRID.octaves, GRID.bits)
HEADER = struct.Struct("<4sHBBII")
WRITTEN = BinsTable.from_columns(
    ["b", "été", "a"],
    np.array([0, 0, 1, 2, 2, 2]),
    np.array([0.1, 1.0, 0.0, 0.1, 0.2, 1e-9]),
    np.array([1.0, 2.0, 0.3, 1e6, 1.0, 0.0]),
    np.array([0.0, 2.0, 0.1, 5e4, 1.0, 1.0]),
)


def assert_sound(table: BinsTable) -> None:
    """Ascending names and cells, sums not negative, and it can be written and read again."""
    scores, outcomes, weights, rows = table.samples()
    assert list(table.campaigns) == sorted(set(table.campaigns))
    assert all((np.diff(bins.cells) > 0).all() for _, bins in table)
    assert ((table.cells >= 0) & (table.cells < GRID.size)).all()
    assert (table.sums >= 0).all()
    assert ((scores >= 0) & (scores <= 1) & (outcomes >= 0) & (outcomes <= 1)).all()
    assert len(weights) == len(rows) == int((table.counts > 0).sum())
    assert (table.totals()[0] >= 0).all()
    assert not table.cells.flags.writeable
    assert BinsTable.from_bytes(table.to_bytes()) == table


@pytest.mark.parametrize(
    ("names", "shared"),
    [("ab", True), ("ac", False), ("abc", False), ("a", False), (["a", "bé"], False)],
)
def test_tables_of_the_same_campaigns_share_them(names, shared):
    first = PackedTable.from_bytes(written(["a", "b"], [1, 1], [5, 5]))
    data = written(list(names), [1] * len(names), [7] * len(names))

    found = PackedTable.from_bytes(data, first)

    assert found.campaigns == tuple(names)
    assert (found.campaigns is first.campaigns) == shared
    assert BinsTable.merge_packed([found]) == BinsTable.from_bytes(data)


def test_campaigns_are_shared_with_bytes_only():
    """A table that was not read from any has none to compare."""
    table = BinsTable.from_bytes(written(["a"], [1], [5]))

    found = PackedTable.from_bytes(written(["a"], [1], [7]), table.packed)

    assert found.campaigns == ("a",)


def test_every_flipped_or_truncated_byte_is_refused_or_read_as_a_sound_table():
    assert assert_refused_or_sound(BinsTable.from_bytes, WRITTEN.to_bytes(), assert_sound) > 300


@given(st.binary(max_size=120), st.integers(0, 4), st.integers(0, 6))
def test_random_bytes_behind_a_good_header(body, campaigns, cells):
    header = HEADER.pack(b"SBTB", 1, *IN_USE, campaigns, cells)
    try:
        table = BinsTable.from_bytes(header + body)
    except ValueError:
        return
    assert_sound(table)


def written(
    names: list[str], lengths: list[int], cells: list[int], counted: int | None = None
) -> bytes:
    total = len(cells) if counted is None else counted
    header = HEADER.pack(b"SBTB", 1, *IN_USE, len(names), total)
    ones = [1] * len(cells)
    columns = (lengths, cells, ones, ones, ones)
    packed = b"".join(pack_column(np.array(column, np.int64)) for column in columns)
    return header + pack_names(names) + packed


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"SBTB", "needs 16 bytes"),
        (HEADER.pack(b"SBIN", 1, *IN_USE, 0, 0), "not the bytes of a bins table"),
        (HEADER.pack(b"SBTB", 9, *IN_USE, 0, 0), "schema_version 9"),
        (HEADER.pack(b"SBTB", 1, 3, 5, 0, 0), "a grid of 3 octaves"),
        (HEADER.pack(b"SBTB", 1, *IN_USE, 2**32 - 1, 0) + b"\x01\x00", "needs 4294967313 bytes"),
        (written(["b", "a"], [1, 1], [5, 5]), "must ascend"),
        (written(["a", "a"], [1, 1], [5, 5]), "must ascend"),
        (written(["a"], [2], [6, 5]), "must ascend"),
        (written(["a"], [1], [5, 6]), "sum to 2"),
        (written(["a", "b"], [2, 0], [5, 6]), "at least 1"),
        (written(["a"], [2**62], [5, 6]), "at least 1"),
        # Together they wrap around to 2.
        (written(["a", "b", "c"], [2**63 - 1, 2**63 - 1, 4], [5, 6]), "at least 1"),
        (written([], [], [], counted=1), "sum to 1"),
        (written(["a"], [1], [5]) + b"\x00", "a bins table ends at byte"),
        (WRITTEN.to_bytes() + b"\x00", "the checksum of a bins table is wrong"),
    ],
)
def test_bad_bytes_are_refused_by_name(data, rule):
    with pytest.raises(ValueError, match=rule):
        BinsTable.from_bytes(data)


def test_bytes_of_a_table_are_pinned():
    """The stored format may not change without a new schema_version."""
    table = BinsTable.from_columns(
        ["b", "a"], np.array([0, 1]), *np.array([[0.25, 0.5], [1.0, 1.0], [1.0, 0.0]])
    )

    header = HEADER.pack(b"SBTB", 2, *IN_USE, 2, 2)
    body = (
        struct.pack("<BB2B2s", 1, 0, 1, 1, b"ab")
        + struct.pack("<BB2B", 1, 0, 1, 1)  # cells per campaign
        + struct.pack("<BB2H", 2, 0, *map(cell_of, (0.5, 0.25)))
        + struct.pack("<BB2B", 1, 1, 1, 1)  # counts in whole units
        + struct.pack("<BB2I", 4, 0, 500_000_000, 250_000_000)  # score sums
        + struct.pack("<BB2B", 1, 1, 0, 1)  # positives in whole units
    )
    assert table.to_bytes() == header + struct.pack("<I", crc32(header + body)) + body
    assert BinsTable.from_bytes(HEADER.pack(b"SBTB", 1, *IN_USE, 2, 2) + body) == table
