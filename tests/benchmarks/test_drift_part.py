"""The benchmark of drift runs, at a tiny size, and shows what decision 13 says."""

from benchmarks.core import drift
from benchmarks.figures import middle


def test_false_alarms_delays_and_what_is_saved_are_measured():
    rows = drift.measure(count=8, traffic=(100,), refits=2, minutes=(60, 15))

    def cell(row: str) -> float:
        return middle(rows[row]["100 an hour"])

    assert rows.popitem()[1]["above the bound"] == 0

    names = list(rows)
    assert [name.split(",")[0] for name in names[:4]] == ["false alarms per 100 campaign-days"] * 4
    assert cell("hours until a jump x 6 is found, median") <= 2
    late = "hour weights on, hours 3-4"
    hourly, often = (cell(f"excess, refits every {m} min, {late}") for m in (60, 15))
    assert often < hourly
