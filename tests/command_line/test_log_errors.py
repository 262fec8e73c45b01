"""Every error of a log names the file, and where it applies row, column, value and rule."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.impressions import LogColumns, read_log
from app.errors import CommandError

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
        ("noon,a,0.5,1,2", f"time = 'noon'; {TIME_RULE}"),
        ("253370764800,a,0.5,1,2", f"time = '253370764800'; {YEAR_RULE}"),
        ("1999-12-31T23:59:59Z,a,0.5,1,2", f"time = '1999-12-31T23:59:59Z'; {YEAR_RULE}"),
        ("1767225600,a," + "x" * 500 + ",1,2", "score = '" + "x" * 62 + "…"),
    ],
)
def test_a_bad_value_is_named_with_its_row(tmp_path: Path, row: str, expected: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{HEAD}{row}\n")

    assert error_of(path).startswith(f"log.csv, row 2: {expected}")


def test_milliseconds_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{HEAD}1767225600000,a,0.5,1,2\n")

    assert "(these look like milliseconds: give --time-unit ms)" in error_of(path)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_missing_column_lists_those_that_exist(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "log.csv":
        path.write_text("time,ad,pctr\n1767225600,a,0.5\n")
    else:
        pq.write_table(pa.table({"time": [1.0], "ad": ["a"], "pctr": [0.5]}), path)

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
def test_a_broken_file_says_what_is_wrong(
    tmp_path: Path, name: str, content: str, expected: str
) -> None:
    path = tmp_path / name
    path.write_text(content)

    assert expected in error_of(path)
    assert "\n" not in error_of(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert error_of(tmp_path / "log.csv").endswith("log.csv: there is no such file")


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.duration("s")])
def test_times_of_day_are_no_times(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "log.parquet"
    row = {"time": pa.array([1], kind), "campaign": ["a"], "score": [0.5], "outcome": [1]}
    pq.write_table(pa.table(row), path)

    assert error_of(path) == f"log.parquet: column 'time' holds {kind}; {TIME_RULE}"
