"""The demo at every hour of a day and at the turns of a month and a year, in this process: its
traffic, and so each map, is another one at another hour."""

import orjson
import pytest

from tests.command_line.conftest import Sirocco
from tests.command_line.test_demo import SMALL

TURNS = ("2026-03-01T00:30:00Z", "2027-01-01T00:30:00Z")
# Of eight hours six are evaluated: those of all starts are together those of a day.
LONGER = ("--hours", "8")
HOURS = tuple(f"2026-11-23T{hour:02d}:30:00Z" for hour in range(0, 24, 6))


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("start", "longer"),
    [
        *((turn, ()) for turn in TURNS),
        *(pytest.param(hour, LONGER, marks=pytest.mark.slow) for hour in HOURS),
    ],
)
def test_it_runs_whenever_it_starts(called: Sirocco, start: str, longer: tuple[str, ...]) -> None:
    run = called("demo", *SMALL, *longer, "--start", start, "--no-picture", "--json")

    assert run.returncode == 0, run.stderr
    rows = orjson.loads(run.stdout)["rows"]
    assert rows["pooled"]["n"] == rows["truth"]["n"] > 0
    assert rows["truth"]["log_loss"] < rows["raw"]["log_loss"]
