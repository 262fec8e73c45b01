"""The client's part of the benchmarks runs at a tiny size. No figure is judged."""

import pytest

from benchmarks.figures import middle
from benchmarks.http import client


@pytest.mark.slow
def test_look_ups_and_calls_have_their_rows():
    """Each beside its alternative."""
    sizes = client.Sizes(campaigns=5, looked_up=(3, 100), called=(1, 50), budget_seconds=0.01)

    rows = client.measure(sizes)

    assert list(rows) == [
        "edge, one score, ns",
        "edge, batch of 3, ns",
        "edge, batch of 100, ns",
        "call, batch of 1, us",
        "call, batch of 50, us",
    ]
    assert all(middle(cell) > 0 for row in rows.values() for cell in row.values())
    assert [len(row) for row in rows.values()] == [3, 3, 3, 2, 2]
