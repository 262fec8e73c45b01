"""The benchmark of clients that misbehave runs, at a tiny size, and yields its rows."""

from benchmarks.figures import middle
from benchmarks.http import connections


def test_a_client_is_measured_alone_and_beside_every_crowd():
    crowds = {"idle": 30, "slow-heads": 20, "half-bodies": 10, "dropped": 50}

    sizes = connections.Sizes(crowds, {"echo": "uvicorn-echo"}, requests=5, rounds=1)
    rows = connections.measure(sizes)

    assert list(rows) == [
        "alone",
        "beside 30 idle",
        "beside 20 with a byte a second",
        "beside 10 half bodies",
        "beside 50 dropped a second",
        "echo",
    ]
    times = {connections.CPU, connections.P50, connections.P99}
    assert set(rows["alone"]) == times
    assert set(rows["beside 30 idle"]) == times | {connections.MEMORY}
    assert all(middle(cell) >= 0 for row in rows.values() for cell in row.values())
