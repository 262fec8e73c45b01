"""Packed entries: the same numbers again, in few bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrators.bins.codecs import ByteColumn
from calibrators.pooled.cells import Entries, PackedEntries

FLOATS = st.one_of(
    st.integers(0, 300).map(float),
    st.floats(0, 1e12),
    st.sampled_from([0.0, 0.5, 254.0, 255.0, 256.0, 255.5, 1e-9]),
)


@given(
    arrays(np.float64, st.integers(0, 30), elements=FLOATS)
    | arrays(np.int64, st.integers(0, 30), elements=st.integers(-(2**40), 2**40))
)
def test_a_column_gives_any_amounts_back(values):
    """Whole and fractional, small and huge, below 0 too where they are whole, to the bit."""
    found = ByteColumn.of(values).values()

    assert found.dtype == values.dtype
    assert found.tobytes() == (values + 0).tobytes()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 900), FLOATS, FLOATS), max_size=30),
    st.integers(5, 7),
)
def test_entries_are_the_same_when_unpacked(listed, hours):
    """In hours with many entries, one or none."""
    columns = list(zip(*sorted(listed), strict=True)) or [(), (), (), ()]
    entries = Entries(
        np.array(columns[1], np.int64),
        np.array(columns[0], np.int64),
        np.array(columns[2], np.float64),
        np.array(columns[3], np.float64),
    )

    packed = PackedEntries.of(entries, hours)

    assert len(packed.lengths) == hours
    for found, given_column in zip(packed.unpacked(), entries, strict=True):
        assert found.dtype == given_column.dtype
        assert found.tolist() == given_column.tolist()


def test_ordinary_entries_take_little_more_than_two_bytes():
    """A bit tells which have positives; what is out of the ordinary takes its own place besides."""
    rng = np.random.default_rng(0)
    places = np.sort(rng.choice(40_000, 10_000, replace=False))
    counts, positives = rng.poisson(3.0, 10_000) + 1.0, rng.poisson(0.1, 10_000) + 0.0
    counts[:100] += 1000
    packed = PackedEntries.of(Entries(places, np.zeros(10_000, np.int64), counts, positives), 1)
    columns = (packed.steps, packed.counts, packed.positives)

    size = sum(c.bytes.nbytes + c.places.nbytes + c.others.nbytes for c in columns)
    assert size == 2 * 10_000 + np.count_nonzero(positives) + 100 * (4 + 8)
    assert packed.clicked.nbytes == 10_000 / 8
