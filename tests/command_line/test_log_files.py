"""Logs of every kind give the same events; every error of one names the file, and where it applies
row, column, value and rule."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.datasets.impressions import LogColumns, read_log
from app.errors import CommandError
from evaluation import EventTable
from tests.command_line.logs import write

TIMES = [1767225600.0, 1767229200.5, 1767232800.25]
CAMPAIGNS = ["b", "a", "b"]
SCORES = [0.1, 0.25, 1e-7]
OUTCOMES = [0.0, 1.0, 0.5]


def assert_the_events(events: EventTable) -> None:
    assert events.times.tolist() == TIMES
    assert [events.campaigns[row] for row in events.rows] == CAMPAIGNS
    assert events.campaigns == ("a", "b")
    assert events.scores.tolist() == SCORES
    assert events.outcomes.tolist() == OUTCOMES


def write_parquet(folder: Path, **changes: Any) -> Path:
    columns = {"time": TIMES, "campaign": CAMPAIGNS, "score": SCORES, "outcome": OUTCOMES}
    return write(folder / "log.parquet", columns | changes)


def moments() -> list[datetime]:
    return [datetime.fromtimestamp(time, UTC) for time in TIMES]


@pytest.mark.parametrize(
    "times",
    [
        TIMES,
        moments(),
        pa.array([moment.replace(tzinfo=None) for moment in moments()], pa.timestamp("ns")),
        [moment.isoformat() for moment in moments()],
        [moment.isoformat().replace("+00:00", "Z") for moment in moments()],
        ["2026-01-01T02:00:00+02:00", "2026-01-01 01:00:00.5Z", "2026-01-01T02:00:00.25"],
        ["2026-01-01 00:00:00", "2026-01-01 01:00:00.500", "2026-01-01 02:00:00.250"],
        [str(time) for time in TIMES],
    ],
)
def test_times_are_timestamps_text_or_seconds(tmp_path, times):
    assert_the_events(read_log(write_parquet(tmp_path, time=times), LogColumns()))


def test_numbers_name_campaigns_and_truth_values_are_outcomes(tmp_path):
    path = write_parquet(tmp_path, campaign=[7, 12, 7], outcome=[True, False, True])

    events = read_log(path, LogColumns())

    assert events.campaigns == ("12", "7")
    assert events.rows.tolist() == [1, 0, 1]
    assert events.outcomes.tolist() == [1.0, 0.0, 1.0]


def test_columns_are_found_by_the_names_given(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("when,ad,p,clicked,price,else\n1767225600,x,0.5,1,3,9\n")

    events = read_log(path, LogColumns("p", "clicked", "ad", "when", "price"))

    assert events.scores.tolist() == [0.5]
    assert events.bids is not None
    assert events.bids.tolist() == [3.0]


def test_a_log_without_bids_has_none(tmp_path):
    assert read_log(write_parquet(tmp_path), LogColumns()).bids is None


def test_the_last_bit_of_a_score_survives_text(tmp_path):
    scores = np.random.default_rng(0).random(1000)
    path = tmp_path / "log.csv"
    rows = "".join(f"1767225600,a,{score!r},0\n" for score in scores.tolist())
    path.write_text(f"time,campaign,score,outcome\n{rows}")

    assert (read_log(path, LogColumns()).scores == scores).all()


HEAD = "time,campaign,score,outcome,bid\n1767225600,a,0.5,1,2\n"
TIME_RULE = "a time is a timestamp, RFC 3339 text (without a zone: UTC) or seconds since 1970"
YEAR_RULE = "the year must be from 2000 to 2099"


def error_of(path: Path) -> str:
    with pytest.raises(CommandError) as caught:
        read_log(path, LogColumns())
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("1767225600,a,1.7,1,2", "score = 1.7; a score must be a number in [0, 1]"),
        ("1767225600,a,-0.1,1,2", "score = -0.1; a score must be a number in [0, 1]"),
        ("1767225600,a,nan,1,2", "score = nan; a score must be a number in [0, 1]"),
        ("1767225600,a,much,1,2", "score = 'much'; a score must be a number in [0, 1]"),
        ("1767225600,a,,1,2", "score = ''; a score must be a number in [0, 1]"),
        ("1767225600,a,0.5,2,2", "outcome = 2.0; an outcome must be a number in [0, 1]"),
        ("1767225600,a,0.5,yes,2", "outcome = 'yes'; an outcome must be a number in [0, 1]"),
        ("1767225600,,0.5,1,2", "campaign = ''; a campaign must have a name"),
        ("1767225600,a,0.5,1,-2", "bid = -2.0; a bid is a number from 0 to 1e280"),
        ("1767225600,a,0.5,1,1e300", "bid = 1e+300; a bid is a number from 0 to 1e280"),
        ("1767225600,a,0.5,1,inf", "bid = inf; a bid is a number from 0 to 1e280"),
        ("1767225600,a,0.5,-1,2", "outcome = -1.0; an outcome must be a number in [0, 1]"),
        ("noon,a,0.5,1,2", f"time = 'noon'; {TIME_RULE}"),
        ("1_767_225_600,a,0.5,1,2", f"time = '1_767_225_600'; {TIME_RULE}"),
        ("176722560\u0660,a,0.5,1,2", f"time = '176722560\u0660'; {TIME_RULE}"),
        ("253370764800,a,0.5,1,2", f"time = '253370764800'; {YEAR_RULE}"),
        ("1999-12-31T23:59:59Z,a,0.5,1,2", f"time = '1999-12-31T23:59:59Z'; {YEAR_RULE}"),
        ("1767225600,a," + "x" * 500 + ",1,2", "score = '" + "x" * 62 + "…"),
    ],
)
def test_a_bad_value_is_named_with_its_row(tmp_path, row, expected):
    path = tmp_path / "log.csv"
    path.write_text(f"{HEAD}{row}\n")

    assert error_of(path).startswith(f"log.csv, row 2: {expected}")


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_missing_column_lists_those_that_exist(tmp_path, name):
    path = write(tmp_path / name, {"time": [1.0], "ad": ["a"], "pctr": [0.5]})

    assert error_of(path) == (
        f"{name} has no column 'score': name the score column with --score. It has: time, ad, pctr"
    )


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("log.csv", "", "Empty CSV file"),
        ("log.csv", "time,campaign,score,outcome\n", "the log has no rows"),
        ("log.csv", f"{HEAD}1767225600,a,0.5\n", "Expected 5 columns, got 3"),
        ("log.csv", "time,campaign,score,score,outcome\n1,a,1,1,1\n", "2 columns named 'score'"),
        ("log.csv.gz", "no gzip", "log.csv.gz: "),
        ("log.parquet", "no parquet", "log.parquet: "),
        ("log.json", "{}", "a log's name ends in .parquet, .csv or .tsv"),
        ("log.gz", "", "a log's name ends in .parquet, .csv or .tsv"),
        ("log", "", "a log's name ends in .parquet, .csv or .tsv"),
    ],
)
def test_a_broken_file_says_what_is_wrong(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_text(content)

    assert expected in error_of(path)
    assert "\n" not in error_of(path)


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.duration("s")])
def test_times_of_day_are_no_times(tmp_path, kind):
    path = write_parquet(tmp_path, time=pa.array([1, 2, 3], kind))

    assert error_of(path) == f"log.parquet: column 'time' holds {kind}; {TIME_RULE}"
