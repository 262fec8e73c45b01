"""Bytes of bins: exact round trip; damaged ones are refused or read as sound bins."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Bins
from calibrators.bins.bins import GRID
from calibrators.bins.codecs import pack_column
from tests.calibrators.damage import assert_refused_or_sound
from tests.calibrators.grid_oracle import cell_of

WRITTEN = Bins.from_samples(
    [0.0, 1e-9, 0.1, 0.1, 0.35, 1.0], [0, 1, 0, 0.25, 1, 1], [1, 3, 1e6, 0.1, 7, 2]
)
IN_USE = (GRID.octaves, GRID.bits)
HEADER = struct.Struct("<4sHBBI")


def assert_sound(bins: Bins) -> None:
    """Ascending cells of the grid, sums not negative, samples within [0, 1], read-only."""
    scores, outcomes, weights = bins.samples()
    assert (np.diff(bins.cells) > 0).all()
    assert ((bins.cells >= 0) & (bins.cells < GRID.size)).all()
    assert (bins.sums >= 0).all()
    assert ((scores >= 0) & (scores <= 1) & (outcomes >= 0) & (outcomes <= 1)).all()
    assert (weights > 0).all()
    assert bins.total_count >= 0
    assert not bins.counts.flags.writeable
    assert Bins.from_bytes(bins.to_bytes()) == bins


def test_every_flipped_or_truncated_byte_is_refused_or_read_as_sound_bins():
    assert assert_refused_or_sound(Bins.from_bytes, WRITTEN.to_bytes(), assert_sound) > 300


@given(st.binary(max_size=80))
def test_random_bytes_behind_a_good_header(body):
    header = HEADER.pack(b"SBIN", 1, *IN_USE, 3)
    try:
        bins = Bins.from_bytes(header + body)
    except ValueError:
        return
    assert_sound(bins)


def columns(*values: list[int]) -> bytes:
    return b"".join(pack_column(np.array(column, np.int64)) for column in values)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"SBIN", "12 bytes of header"),
        (HEADER.pack(b"SBTB", 1, *IN_USE, 0), "not the bytes of bins"),
        (HEADER.pack(b"SBIN", 2, *IN_USE, 0), "schema_version 2, this reads 1"),
        (HEADER.pack(b"SBIN", 1, 3, GRID.bits, 0), "a grid of 3 octaves"),
        (HEADER.pack(b"SBIN", 1, GRID.octaves, 3, 0), r"2\^3 cells"),
        (HEADER.pack(b"SBIN", 1, *IN_USE, 2**32 - 1) + b"\x01\x00", "needs 4294967309 bytes"),
        (HEADER.pack(b"SBIN", 1, *IN_USE, 2) + columns([5, 5], [1, 1], [1, 1], [0, 0]), "ascend"),
        (
            HEADER.pack(b"SBIN", 1, *IN_USE, 1) + columns([GRID.size], [1], [1], [0]),
            "grid has cells 0 to",
        ),
        (WRITTEN.to_bytes() + b"\x00", "bins end at byte"),
    ],
)
def test_bad_bytes_are_refused_by_name(data, rule):
    with pytest.raises(ValueError, match=rule):
        Bins.from_bytes(data)


def test_bytes_of_an_hour_are_pinned():
    """The stored format may not change without a new schema_version."""
    bins = Bins.from_samples([0.25, 0.5, 0.5], [1, 0, 1])

    assert bins.to_bytes() == (
        HEADER.pack(b"SBIN", 1, *IN_USE, 2)
        + struct.pack("<BB2H", 2, 0, *map(cell_of, (0.25, 0.5)))
        + struct.pack("<BB2B", 1, 1, 1, 2)  # counts in whole units
        + struct.pack("<BB2I", 4, 0, 250_000_000, 1_000_000_000)  # score sums
        + struct.pack("<BB2B", 1, 1, 1, 1)  # positives in whole units
    )
