"""`sirocco backtest --compare`: every method against every other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from evaluation import Platform
from research.leaderboard import command
from research.leaderboard.report import BEGIN, END
from research.leaderboard.result_file import result_json
from tests.command_line.conftest import Sirocco
from tests.command_line.logs import START, write_log
from tests.research.leaderboard.sample import REASON, result

SMALL = ("backtest", "--compare", "--regimes", "dense", "--judged", "1h", "--draws", "50")


def answer(called: Sirocco, *arguments: object) -> dict[str, Any]:
    run = called(*arguments, "--json")
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    found: dict[str, Any] = orjson.loads(run.stdout)
    return found


@pytest.fixture
def kept(tmp_path) -> Path:
    """A made-up result in a file."""
    path = tmp_path / "kept.json"
    path.write_bytes(result_json(result(), []))
    return path


def test_json_has_each_method_and_how_it_compares(called):
    """The schema of a kept result, by example."""
    found = answer(called, *SMALL, "--contenders", "pooled,identity,sir_published")

    assert (found["format"], found["schema_version"]) == ("sirocco/contest", 1)
    assert found["origins"][0]["command"].startswith("sirocco backtest --compare --regimes dense")
    (regime,) = found["contested"]
    assert (regime["name"], regime["truth_known"], regime["seeds"]) == ("dense", True, [0])
    assert list(regime["rows"]) == ["pooled", "identity", "sir_published"]
    rows = regime["rows"]
    assert rows["pooled"]["excess_log_loss"] < rows["identity"]["excess_log_loss"]
    assert set(rows["pooled"]) == {
        "excess_log_loss", "gc_3_true", "gc_3", "log_loss", "pcoc", "refit_cpu_seconds",
    }  # fmt: skip
    ratio = regime["ratios"]["sir_published"]["excess_log_loss"]
    parts = [rows[name]["excess_log_loss"] for name in ("pooled", "sir_published")]
    assert ratio["value"] == pytest.approx(parts[0] / parts[1])
    assert ratio["lower"] <= ratio["value"] <= ratio["upper"]
    verdict = found["verdicts"][0]
    assert (verdict["regime"], verdict["against"]) == ("dense", "sir_published")
    assert verdict["met"] == (verdict["value"] <= 0.25)


@pytest.mark.slow
def test_seeds_in_processes_of_their_own_give_the_same(called):
    """How many play at a time changes nothing but the CPU."""
    small = (*SMALL, "--contenders", "identity,sir", "--seeds", "2")

    one, two = (
        answer(called, *small, "--processes", processes)["contested"][0] for processes in (1, 2)
    )

    assert two["seeds"] == [0, 1]
    for seeds in (one, two):
        for of_method in (*seeds["rows"].values(), *seeds["by_seed"].values()):
            del of_method["refit_cpu_seconds"]
    assert one == two
    first, second = one["by_seed"]["sir"]["excess_log_loss"]
    assert first != second


def test_a_log_is_scored_by_what_happened(tmp_path, called):
    """Nobody knows its truth: no excess, but differences in log loss, with intervals."""
    platform = Platform(campaigns=4, impressions_per_hour=250, ctr=0.1, start=START, seed=2)
    log = write_log(tmp_path / "log.parquet", platform.hours(0, 12).events)
    options = ("--window", "6h", "--bin-size", "50", "--contenders", "identity,sir,pooled")

    (found,) = answer(called, "backtest", log, "--compare", *options)["contested"]

    assert (found["name"], found["truth_known"], found["hours"]) == ("log.parquet", False, 6)
    assert set(found["rows"]["sir"]) == {"gc_3", "log_loss", "pcoc", "refit_cpu_seconds"}
    assert found["rows"]["sir"]["log_loss"] < found["rows"]["identity"]["log_loss"]
    difference = found["differences"]["identity"]["log_loss"]
    assert difference["lower"] < difference["value"] < difference["upper"]


def test_tables_of_a_kept_result(called, kept):
    run = called("backtest", "--compare", "--from", kept)

    assert run.returncode == 0
    assert "mixed: 200 campaigns, CTR 1 %: what is called mixed" in run.stdout
    assert f"mcgrad did not run: {REASON}" in run.stdout
    assert (
        "All regimes whose scores err: geometric means of the ratios to sir_published" in run.stdout
    )
    assert "missed: 0.96" in run.stdout
    assert "calibrated: log loss less identity's, x 10^6: +3.0 (+1.0 to +5.0)" in run.stdout
    mean = "Geometric mean of all regimes: excess of the better of LightGBM and MCGrad: 0.75"
    assert f"{mean} (<= 0.60, missed)" in run.stdout
    assert "15 of 18 targets are met." in run.stdout
    assert "pooled less it, x 10^6" in run.stdout
    assert "…" not in run.stdout
    assert "Nobody knows the true probabilities of a real log" in run.stderr


def test_a_kept_result_is_read_as_it_was_written(called, kept):
    again = answer(called, "backtest", "--compare", "--from", kept)

    before = orjson.loads(kept.read_bytes())
    assert again | {"verdicts": []} == before


def test_of_two_results_with_a_regime_the_last_one_holds(called, kept):
    raw = orjson.loads(kept.read_bytes())
    raw["contested"] = raw["contested"][:1]
    raw["contested"][0]["about"] = "another"
    other = kept.with_name("other.json")
    other.write_bytes(orjson.dumps(raw))

    found = answer(called, "backtest", "--compare", "--from", kept, "--from", other)

    names = [regime["name"] for regime in found["contested"]]
    assert names == ["mixed", "steps", "calibrated", "a log.parquet"]
    assert found["contested"][0]["about"] == "another"


def test_pages_and_pictures_of_a_kept_result(called, kept, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")

    run = called(
        "backtest", "--compare", "--from", kept, "--report", "board.html", "--picture",
        "board.svg", "--write", page,
    )  # fmt: skip

    assert run.returncode == 0, run.stderr
    assert "Calibrators compared" in (tmp_path / "board.html").read_text()
    assert (tmp_path / "board.svg").read_text().startswith("<svg")
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\n")
    assert text.endswith(f"{END}\n\nAfter.\n")
    assert "old" not in text
    assert "| **pooled** | **28.4** |" in text
    assert "**missed: 0.96**" in text
    assert "### Refits within the hour" in text


def test_a_page_is_written_again_without_a_trace(called, kept, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    again = ("backtest", "--compare", "--from", kept, "--write", page)

    called(*again)
    once = page.read_text()
    called(*again)

    assert page.read_text() == once


def test_a_png(called, kept, tmp_path):
    run = called("backtest", "--compare", "--from", kept, "--picture", "board.png")

    assert run.returncode == 0
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--regimes", "mixed"), "--regimes goes with --compare only"),
        (("--processes", "2"), "--processes goes with --compare only"),
        (("--from", "x.json"), "--from goes with --compare only"),
        (("--compare", "--delayed"), "--delayed does not go with --compare"),
        (("--compare", "--calibrators", "sir"), "--calibrators does not go with --compare"),
        (("--compare", "--against", "sir"), "--against does not go with --compare"),
        (("--compare", "--min-samples", "3"), "--min-samples does not go with --compare"),
        (("--compare", "--draws", "0"), "--draws 0: must be at least 1"),
        (("--compare", "--regimes", "wild"), "--regimes 'wild': give some of mixed, sparse,"),
        (("--compare", "--contenders", ","), "--contenders ',': give some of identity,"),
        (("--compare", "--window", "6h"), "--window goes with a log"),
        (("a.csv", "--compare", "--seeds", "2"), "--seeds goes with synthetic regimes"),
        (("a.csv", "b.csv", "--compare"), "2 logs are given: --compare takes one, or none"),
        (("a.csv", "--compare", "--from", "x"), "LOG does not go with --from"),
        (("--compare", "--from", "x", "--seeds", "2"), "--seeds does not go with --from"),
        (("--compare", "--from", "none.json"), "none.json: No such file or directory"),
        (("--compare", "--picture", "x.bmp"), "x.bmp: a picture's name ends in"),
        (("--compare", "--report", "x.pdf"), "x.pdf: a report's name ends in .html"),
        (("--compare", "--write", "none.md"), "none.md: No such file or directory"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(called, arguments, expected):
    run = called("backtest", *arguments)

    assert (run.returncode, run.stdout) == (2, "")
    assert expected in run.stderr


@dataclass(frozen=True)
class Bad:
    """A file that is no kept result, and what is said of it."""

    data: bytes
    expected: str


BAD = {
    "text": Bad(b"pooled", "is not JSON"),
    "other": Bad(b"{}", "is no result of sirocco backtest --compare --json"),
    "newer": Bad(b'{"format": "sirocco/contest", "schema_version": 2}', "this sirocco reads 1"),
    "broken": Bad(
        b'{"format": "sirocco/contest", "schema_version": 1, "origins": [], "contested": [7]}',
        "$.contested[0]",
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_file_that_is_no_result_is_refused(called, tmp_path, bad):
    (tmp_path / "bad.json").write_bytes(bad.data)

    run = called("backtest", "--compare", "--from", "bad.json")

    assert run.returncode == 2
    assert "bad.json: " in run.stderr
    assert bad.expected in run.stderr


def test_a_page_without_marks_is_not_touched(called, kept, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n")

    run = called("backtest", "--compare", "--from", kept, "--write", page)

    assert run.returncode == 2
    assert "must have the line" in run.stderr
    assert page.read_text() == "# A page\n"


def test_refits_within_the_hour_around_a_jump(called, monkeypatch):
    """One curve for each time between refits, the hour of the jump in its place; no regime."""
    monkeypatch.setattr(command, "_CAMPAIGNS", 3)
    monkeypatch.setattr(command, "_IMPRESSIONS", 400)
    monkeypatch.setattr(command, "_REFITS", (("sir", 60), ("sir", 30)))

    found = answer(called, "backtest", "--compare", "--drift", "--seeds", "2")

    assert found["contested"] == []
    curves = found["drift"]
    assert (curves["hours"][0], curves["hours"][-1], curves["seeds"]) == (-4.0, 11.0, [0, 1])
    assert list(curves["excess"]) == ["sir, 60 min", "sir, 30 min"]
    hourly, twice = (np.array(excess) for excess in curves["excess"].values())
    assert hourly.shape == (16,)
    assert hourly[4] > hourly[3]
    assert (hourly != twice).any()
