"""The benchmark of sleeping and polling servers runs, at a tiny size, and yields its rows."""

import pytest

from benchmarks.figures import Table, middle
from benchmarks.http import awake

SIZES = awake.Sizes(
    campaigns=20, messages=5, connections=4, rates=(200, 400), seconds=0.3, rounds=1
)


@pytest.fixture(scope="module")
def rows() -> Table:
    return awake.measure(SIZES)


def test_each_server_is_measured_at_each_rate(rows: Table) -> None:
    assert list(rows) == ["200/s, sleeps", "200/s, polls", "400/s, sleeps", "400/s, polls"]
    for row in rows.values():
        assert list(row) == [awake.CORES, *awake.PERCENTILES]
        tail = [middle(row[column]) for column in awake.PERCENTILES]
        assert tail[0] > 0
        assert tail == sorted(tail)


def test_only_the_server_that_polls_takes_a_core(rows: Table) -> None:
    """However few the requests."""
    assert middle(rows["200/s, polls"][awake.CORES]) > middle(rows["200/s, sleeps"][awake.CORES])


def test_latencies_are_compared_rate_by_rate() -> None:
    rows: Table = {
        "200/s, sleeps": dict.fromkeys(awake.PERCENTILES, 6.0),
        "200/s, polls": dict.fromkeys(awake.PERCENTILES, 2.0),
    }
    expected = {"200/s, sleeps over polls": {"p50": 3.0, "p90": 3.0, "p99": 3.0, "p99.9": 3.0}}
    assert awake.ratios(rows) == expected
