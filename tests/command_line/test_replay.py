"""`sirocco replay` through real HTTP and real Redis."""

from pathlib import Path

import orjson
import pytest

from evaluation import EventTable
from tests.command_line.conftest import Sirocco
from tests.command_line.logs import events, write_log

FIT = ("--window", "2h", "--bin-size", "50")


def assert_equal_to_the_backtest(folder: Path, command: Sirocco, *calibrator: str) -> None:
    """Same log, same numbers to nine digits, as shipped; silent hours and expected outcomes
    included."""
    table = events()
    table.outcomes[::7] = 0.25
    log = write_log(folder / "log.parquet", table)

    replayed = command("replay", log, *FIT, *calibrator, "--json")
    name = calibrator[-1] if calibrator else "pooled"
    backtested = command("backtest", log, *FIT, "--calibrators", name, "--json")

    assert replayed.returncode == 0, replayed.stderr
    online, offline = (orjson.loads(run.stdout)["rows"] for run in (replayed, backtested))
    assert list(online) == ["raw", name]
    assert online[name]["pcoc"] != online["raw"]["pcoc"]
    assert online["raw"]["n"] == float((table.hours >= table.hours.min() + 2).sum())
    for row, card in online.items():
        assert card == pytest.approx(offline[row], rel=1e-9, abs=0)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_service_and_the_backtest_are_one_code(tmp_path, called):
    assert_equal_to_the_backtest(tmp_path, called, "--calibrator", "sir")


@pytest.mark.slow
def test_so_they_are_with_defaults_in_processes_of_their_own(tmp_path, sirocco):
    assert_equal_to_the_backtest(tmp_path, sirocco)


def test_a_log_shorter_than_the_window_is_refused_before_anything_starts(tmp_path, refused):
    log = write_log(tmp_path / "log.parquet", events(hours=6))

    assert refused("replay", log) == (
        "sirocco: the log spans 6 h, so a window of 24 h leaves no hour to evaluate:"
        " give a shorter one, such as --window 2h"
    )


@pytest.mark.usefixtures("in_this_process")
def test_a_rejected_event_ends_the_replay_with_its_reason(tmp_path, called):
    table = events(hours=4)
    named = EventTable(
        table.times, ("x" * 300, *table.campaigns[1:]), table.rows, table.scores, table.outcomes
    )
    log = write_log(tmp_path / "log.parquet", named)

    run = called("replay", log, *FIT, "--no-picture")

    assert run.returncode == 1
    assert "256" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--bin-size", "50"), "--bin-size is a setting of the service at http://127.0.0.1:9"),
        ((), "http://127.0.0.1:9 does not answer"),
    ],
)
def test_a_service_of_ones_own_keeps_its_settings(tmp_path, called, options, expected):
    log = write_log(tmp_path / "log.parquet", events(hours=4))

    run = called("replay", log, "--window", "2h", "--url", "http://127.0.0.1:9", *options)

    assert run.returncode in (1, 2)
    assert expected in run.stderr
