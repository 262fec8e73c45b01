"""The report of each command, as it is written for a log with bad names, in a real browser."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.cli.main import main
from evaluation import Platform
from tests.reports.looked_at import check_readable, looked_at
from tests.reports.sample_page import BAD_NAMES

START = 1_767_225_600.0
WINDOWS = [(1280, "light"), (320, "dark")]
REPORTS = {
    "evaluate": ["log.parquet", "--by", "campaign"],
    "backtest": ["log.parquet", "--window", "6h", "--draws", "20"],
    "compare": ["log.parquet", "log.parquet", "--score-b", "other", "--draws", "20"],
    "compare-runs": ["a", "b"],
    "auction": ["--demo", "--pages", "3000", "--sweep"],
}
LARGEST = 1_000_000


def write_logs(folder: Path) -> None:
    platform = Platform(campaigns=len(BAD_NAMES), impressions_per_hour=500, ctr=0.1, start=START)
    events = platform.hours(0, 8).events
    names = [name.encode("utf-8", "replace").decode() or "?" for name in BAD_NAMES]
    table = pa.table(
        {
            "time": events.times,
            "campaign": np.array(names)[events.rows],
            "score": events.scores,
            "outcome": events.outcomes,
            "bid": np.linspace(0.1, 3, len(events)),
            "other": np.sqrt(events.scores) / 4,
        }
    )
    pq.write_table(table, folder / "log.parquet")
    for model, power in (("a", 1.0), ("b", 1.3)):
        (folder / model).mkdir()
        for run in range(3):
            scores = pa.array(np.clip(events.scores**power * (1 + 0.1 * run), 0, 1))
            place = table.schema.get_field_index("score")
            pq.write_table(
                table.set_column(place, "score", scores), folder / model / f"{run}.parquet"
            )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        write_logs(Path(name))
        yield Path(name)


@pytest.fixture(scope="module", params=REPORTS)
def report(folder: Path, request: pytest.FixtureRequest) -> Path:
    path = folder / f"{request.param}.html"
    command = request.param.partition("-")[0]
    arguments = ["sirocco", command, *REPORTS[request.param], "--report", path.name]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code in (0, None)
    return path


def test_it_is_whole_and_readable(browser, report):
    for width, scheme in WINDOWS:
        with looked_at(browser, report, width=width, scheme=scheme) as seen:
            check_readable(seen, report)


@pytest.mark.slow
def test_it_is_small(report):
    assert report.stat().st_size < LARGEST


def test_it_says_how_it_was_made(report):
    assert f"--report {report.name}" in report.read_text(encoding="utf-8")
