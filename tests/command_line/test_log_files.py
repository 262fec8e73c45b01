"""Logs of every kind give the same events."""

import bz2
import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.impressions import LogColumns, read_log
from evaluation import EventTable

TIMES = [1767225600.0, 1767229200.5, 1767232800.25]
CAMPAIGNS = ["b", "a", "b"]
SCORES = [0.1, 0.25, 1e-7]
OUTCOMES = [0.0, 1.0, 0.5]


def as_text(delimiter: str) -> bytes:
    columns = zip(TIMES, CAMPAIGNS, SCORES, OUTCOMES, strict=True)
    lines = [["time", "campaign", "score", "outcome"], *([*map(str, row)] for row in columns)]
    return "\n".join(delimiter.join(line) for line in lines).encode()


def assert_the_events(events: EventTable) -> None:
    assert events.times.tolist() == TIMES
    assert [events.campaigns[row] for row in events.rows] == CAMPAIGNS
    assert events.campaigns == ("a", "b")
    assert events.scores.tolist() == SCORES
    assert events.outcomes.tolist() == OUTCOMES


def zstandard(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("log.csv", bytes),
        ("log.CSV", bytes),
        ("log.tsv", bytes),
        ("log.csv.gz", gzip.compress),
        ("log.tsv.bz2", bz2.compress),
        ("my.log.csv.zst", zstandard),
    ],
)
def test_text_is_read_plain_and_compressed(tmp_path: Path, name: str, pack: Any) -> None:
    path = tmp_path / name
    path.write_bytes(pack(as_text("\t" if ".tsv" in name else ",")))

    assert_the_events(read_log(path, LogColumns()))


def write_parquet(path: Path, **columns: Any) -> Path:
    table = {"time": TIMES, "campaign": CAMPAIGNS, "score": SCORES, "outcome": OUTCOMES, **columns}
    pq.write_table(pa.table(table), path)
    return path


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
def test_times_are_timestamps_text_or_seconds(tmp_path: Path, times: Any) -> None:
    assert_the_events(read_log(write_parquet(tmp_path / "log.parquet", time=times), LogColumns()))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("campaign", pa.array(CAMPAIGNS).dictionary_encode()),
        ("campaign", pa.array(CAMPAIGNS, pa.large_string())),
        ("score", [str(score) for score in SCORES]),
        ("score", [f" {score} " for score in SCORES]),
    ],
)
def test_columns_of_other_types_are_converted(tmp_path: Path, column: str, values: Any) -> None:
    path = write_parquet(tmp_path / "log.parquet", **{column: values})

    assert_the_events(read_log(path, LogColumns()))


def test_numbers_name_campaigns_and_truth_values_are_outcomes(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", campaign=[7, 12, 7], outcome=[True, False, True])

    events = read_log(path, LogColumns())

    assert events.campaigns == ("12", "7")
    assert events.rows.tolist() == [1, 0, 1]
    assert events.outcomes.tolist() == [1.0, 0.0, 1.0]


def test_columns_are_found_by_the_names_given(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("when,ad,p,clicked,price,else\n1767225600,x,0.5,1,3,9\n")

    events = read_log(path, LogColumns("p", "clicked", "ad", "when", "price"))

    assert events.scores.tolist() == [0.5]
    assert events.bids is not None
    assert events.bids.tolist() == [3.0]


def test_a_log_without_bids_has_none(tmp_path: Path) -> None:
    assert read_log(write_parquet(tmp_path / "log.parquet"), LogColumns()).bids is None


def test_the_last_bit_of_a_score_survives_text(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).random(1000)
    path = tmp_path / "log.csv"
    rows = "".join(f"1767225600,a,{score!r},0\n" for score in scores.tolist())
    path.write_text(f"time,campaign,score,outcome\n{rows}")

    assert (read_log(path, LogColumns()).scores == scores).all()
