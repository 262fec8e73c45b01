"""`sirocco simulate`."""

import numpy as np
import pyarrow.parquet
import pytest

from app.datasets.clicks import read_click_log
from app.datasets.impressions import LogColumns, read_log
from evaluation import ClickPlatform, Platform

SMALL = ("--days", 2, "--clicks", 40, "--campaigns", 3)


@pytest.mark.slow
def test_the_log_is_the_platform(tmp_path, called):
    run = called("simulate", "clicks.parquet", *SMALL, "--seed", 5, "--drift", 0.5)

    assert run.returncode == 0, run.stderr
    file = read_click_log(tmp_path / "clicks.parquet")
    platform = ClickPlatform(campaigns=3, clicks_per_hour=40, seed=5, drift=0.5)
    drawn = platform.hours(0, 48).stream
    np.testing.assert_array_equal(file.stream.clicks.scores, drawn.clicks.scores)
    np.testing.assert_allclose(file.stream.delay, drawn.delay, atol=1e-5)
    assert file.known_until == platform.start + 9 * 86_400.0
    assert f"clicks.parquet: {len(drawn):,} clicks of 2 days" in run.stderr
    assert "sirocco backtest clicks.parquet --delayed" in run.stderr
    assert run.stdout == ""


IMPRESSIONS = ("--impressions", 200, "--days", 1, "--campaigns", 3)


def test_the_impression_log_is_the_platform(tmp_path, called):
    run = called("simulate", "log.parquet", *IMPRESSIONS, "--seed", 5)

    assert run.returncode == 0, run.stderr
    events = read_log(tmp_path / "log.parquet", LogColumns())
    drawn = Platform(campaigns=3, impressions_per_hour=200, seed=5).hours(0, 24).events
    np.testing.assert_array_equal(events.scores, drawn.scores)
    np.testing.assert_array_equal(events.outcomes, drawn.outcomes)
    np.testing.assert_array_equal(events.times, drawn.times)
    assert [events.campaigns[row] for row in events.rows] == [
        drawn.campaigns[row] for row in drawn.rows
    ]
    assert f"log.parquet: {len(drawn):,} impressions of 1 day." in run.stderr


def test_the_impression_log_serves_the_measuring_commands(tmp_path, called):
    """Bids, a candidate in [0, 1], users of one arm each, and costs of clicks only."""
    called("simulate", "log.parquet", *IMPRESSIONS)

    log = pyarrow.parquet.read_table(tmp_path / "log.parquet").to_pydict()

    assert min(log["bid"]) > 0
    assert 0 < min(log["candidate"]) <= max(log["candidate"]) < 1
    arms = {(user, arm) for user, arm in zip(log["user"], log["arm"], strict=True)}
    assert {arm for _, arm in arms} == {"control", "treatment"}
    assert len(arms) == len(set(log["user"]))
    expected = [bid * y for bid, y in zip(log["bid"], log["outcome"], strict=True)]
    assert log["cost"] == expected


def test_the_same_seed_gives_the_same_bytes(tmp_path, called):
    """A click log's values are those of its platform, see above."""
    for name in ("a.parquet", "b.parquet"):
        called("simulate", name, *IMPRESSIONS)

    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_file_that_is_there_is_replaced_with_force_only(tmp_path, called, refused):
    (tmp_path / "log.parquet").write_bytes(b"mine")

    assert "log.parquet: the log is there already; --force" in refused(
        "simulate", "log.parquet", *IMPRESSIONS
    )
    assert (tmp_path / "log.parquet").read_bytes() == b"mine"
    assert called("simulate", "log.parquet", *IMPRESSIONS, "--force").returncode == 0
    assert len(read_log(tmp_path / "log.parquet", LogColumns()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("log.csv", "--impressions", 5), "log.csv: this log is Parquet"),
        (("log.parquet", "--impressions", 5, "--clicks", 5), "--clicks does not go with"),
        (("nowhere/log.parquet", "--impressions", 5), "nowhere/log.parquet: "),
        (("nowhere/clicks.parquet", "--clicks", 40), "nowhere/clicks.parquet: "),
    ],
)
def test_what_cannot_be_written_is_one_sentence(refused, arguments, words):
    assert refused("simulate", *arguments, "--days", 1).startswith(f"sirocco: {words}")


def test_fields_are_columns_that_the_other_commands_read(tmp_path, called):
    run = called("simulate", "log.parquet", *IMPRESSIONS, "--fields", "device, placement")

    assert run.returncode == 0, run.stderr
    assert "Next: sirocco evaluate log.parquet --fields device,placement" in run.stderr
    log = pyarrow.parquet.read_table(tmp_path / "log.parquet").to_pydict()
    assert set(log["device"]) <= {f"device-{number}" for number in range(1, 7)}
    assert len(set(log["placement"])) > 1
    evaluated = called("evaluate", "log.parquet", "--fields", "device,placement")
    assert "Field-RCE by placement" in evaluated.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((*IMPRESSIONS, "--fields", "device,bid"), "--fields bid: the log has a column"),
        ((*IMPRESSIONS, "--fields", "device,device"), "SIROCCO_FIELDS"),
        ((*SMALL, "--fields", "device"), "--fields goes with --impressions"),
    ],
)
def test_fields_that_a_log_cannot_have_are_refused(tmp_path, refused, options, said):
    assert said in refused("simulate", "log.parquet", *options)
    assert not (tmp_path / "log.parquet").exists()
