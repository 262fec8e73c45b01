"""`sirocco evaluate`: every metric of a log, of all rows and by slice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli.measure import evaluate
from evaluation import EventTable, Platform, auc, cs_auc, gauc, gc_n, gcs_auc, pcoc, ropr, scorecard
from evaluation.streaming.log import RowLimits
from tests.command_line.logs import START, write

NO_MAINLINE = "no row has slot = 'roof', so there is no mainline. slot is one of: side, top"
CONTRACT = ("n", "positives", "pcoc", "log_loss", "auc", "gc_3", "gc_4", "gc_5")


def events_of(hours: int, impressions: int) -> EventTable:
    platform = Platform(campaigns=3, impressions_per_hour=impressions, ctr=0.1, start=START)
    return platform.hours(0, hours).events


def table(hours: int = 4, impressions: int = 600) -> dict[str, Any]:
    """A log with bids, devices, users and slots."""
    events = events_of(hours, impressions)
    rng = np.random.default_rng(0)
    size = len(events)
    return {
        "time": events.times,
        "campaign": np.array(events.campaigns)[events.rows],
        "score": events.scores,
        "outcome": events.outcomes,
        "bid": rng.integers(1, 9, size) / 4.0,
        "device": rng.choice(["phone", "tablet", ""], size),
        "user": rng.integers(0, 50, size),
        "slot": rng.choice(["top", "side"], size, p=[0.3, 0.7]),
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.parquet", table())


def test_json_has_the_metrics_of_all_rows(log, answered):
    raw = answered("evaluate", log)["rows"]["raw"]

    t = table()
    p, y, bids, campaigns = t["score"], t["outcome"], t["bid"], t["campaign"].tolist()
    expected = scorecard(p, y, campaigns)
    assert {name: raw[name] for name in CONTRACT} == pytest.approx(expected)
    assert raw["ropr"] == pytest.approx(ropr(p, y, bids))
    assert raw["cs_auc"] == pytest.approx(cs_auc(p, y, bids))
    assert raw["gauc"] == pytest.approx(gauc(p, y, campaigns))
    assert raw["gcs_auc"] == pytest.approx(gcs_auc(p, y, bids, campaigns))


def test_json_has_every_campaign_and_hour_and_quantile(log, answered):
    found = answered("evaluate", log)

    t = table()
    assert list(found["campaigns"]) == sorted(set(t["campaign"]))
    for name, numbers in found["campaigns"].items():
        own = t["campaign"] == name
        assert numbers["pcoc"] == pytest.approx(pcoc(t["score"][own], t["outcome"][own]))
        assert numbers["pcoc_lower"] < numbers["pcoc"] < numbers["pcoc_upper"]
    hours = [f"2026-01-01T{hour:02}:00Z" for hour in range(4)]
    assert list(found["hours"]) == hours
    assert sum(numbers["n"] for numbers in found["hours"].values()) == len(t["score"])
    losses = [row["log_loss"] * row["n"] for row in found["quantiles"]]
    assert len(losses) == 10
    assert sum(losses) / len(t["score"]) == pytest.approx(found["rows"]["raw"]["log_loss"])
    assert found["score_cells_per_octave"] is None
    assert found["precision"]["raw"] == {"score_cells_per_octave": None, "auc_error_at_most": 0}


def test_any_column_cuts_the_log(log, answered):
    """Also one of numbers; an empty value is a slice like any other."""
    found = answered("evaluate", log, "--by", "device", "--by", "user")

    t = table()
    assert list(found["by"]) == ["device", "user"]
    assert set(found["by"]["device"]) == {"phone", "tablet", "(none)"}
    assert set(found["by"]["user"]) == {str(user) for user in range(50)}
    own = t["device"] == ""
    expected = auc(t["score"][own], t["outcome"][own])
    assert found["by"]["device"]["(none)"]["auc"] == pytest.approx(expected)


def test_the_groups_of_gauc_may_be_another_column(log, answered):
    found = answered("evaluate", log, "--group", "user")

    t = table()
    raw = found["rows"]["raw"]
    assert raw["gauc"] == pytest.approx(gauc(t["score"], t["outcome"], t["user"]))
    assert raw["gc_3"] == pytest.approx(gc_n(t["score"], t["outcome"], t["campaign"].tolist(), 3))
    assert found["by"] == {}


def test_the_mainline_has_an_auc_of_its_own(log, answered):
    found = answered("evaluate", log, "--placement", "slot", "--mainline", "top")

    t = table()
    expected = auc(t["score"], t["outcome"], where=t["slot"] == "top")
    assert found["rows"]["raw"]["mainline_auc"] == pytest.approx(expected)


def test_what_has_no_bids_and_what_has_a_mainline_is_shown_so(tmp_path, called):
    columns = {name: column for name, column in table(impressions=3_000).items() if name != "bid"}
    log = write(tmp_path / "log.parquet", columns)

    run = called("evaluate", log, "--placement", "slot", "--mainline", "top")

    assert any(line.startswith("mainline AUC ") for line in run.stdout.splitlines())
    assert "Revenue: " not in run.stdout


def test_a_log_in_which_all_is_defined_has_no_notes(tmp_path, called):
    columns = {
        **table(impressions=3_000),
        "campaign": ["one"] * len(table(impressions=3_000)["bid"]),
    }

    run = called("evaluate", write(tmp_path / "log.parquet", columns))

    assert run.stderr.strip() == ""
    assert "GC-3" not in run.stdout
    assert "GAUC" not in run.stdout


def test_fractional_outcomes_have_a_revenue_but_no_cs_auc(tmp_path, called):
    columns = {**table(), "outcome": np.full(len(table()["bid"]), 0.1)}

    run = called("evaluate", write(tmp_path / "log.parquet", columns))

    assert "ROPR" in run.stdout
    assert "csAUC   " not in run.stdout


def test_a_log_of_score_and_outcome_only_is_measured_too(tmp_path, answered):
    t = table()
    log = write(tmp_path / "log.parquet", {name: t[name] for name in ("score", "outcome")})

    found = answered("evaluate", log)

    raw = found["rows"]["raw"]
    assert raw["auc"] == pytest.approx(auc(t["score"], t["outcome"]))
    assert raw["gc_3"] is raw["gauc"] is raw["cs_auc"] is None
    assert found["campaigns"] == found["hours"] == {}
    assert found["notes"] == [
        "log.parquet has no column 'campaign': nothing by campaign, no GC-N.",
        "log.parquet has no column 'time': nothing by hour.",
        "log.parquet has no column 'bid': no ROPR, no csAUC.",
    ]


def test_the_terminal_tells_what_the_numbers_mean(log, called):
    run = called("evaluate", log, "--by", "user", "--top", "1")

    lines = run.stdout.splitlines()
    size, campaigns = len(table()["time"]), len(set(table()["campaign"]))
    assert lines[0].startswith(f"log.parquet: {size:,} impressions, ")
    assert lines[0].endswith(f"{campaigns} campaigns, 4 hours")
    assert max(map(len, lines[6:])) <= 100
    assert "predicted over actual: 1 is right" in run.stdout
    for part in ("Calibration: ", "Loss: ", "Ranking: ", "Revenue: ", "By score: "):
        assert any(line.startswith(part) for line in lines)
    assert sum(line.startswith("campaign-") for line in lines) == 1
    assert sum(line.startswith("2026-01-01T0") for line in lines) == 4
    assert f"and {campaigns - 1} more: --top shows more of them, --json has all" in lines
    assert "and 49 more: --top shows more of them, --json has all" in lines


def test_the_worst_slice_stands_first_and_a_tiny_one_does_not_shout(tmp_path, called):
    sizes = {"tiny": (3, 1, 0.5), "right": (4_000, 400, 0.1), "off": (4_000, 400, 0.2)}
    columns: dict[str, list[Any]] = {"campaign": [], "score": [], "outcome": []}
    for name, (size, positives, score) in sizes.items():
        columns["campaign"] += [name] * size
        columns["score"] += [score] * size
        columns["outcome"] += [1] * positives + [0] * (size - positives)
    log = write(tmp_path / "log.parquet", columns)

    run = called("evaluate", log)

    named = [line.split()[0] for line in run.stdout.splitlines() if line.split()[:1] != []]
    assert [name for name in named if name in sizes] == ["off", "right", "tiny"]
    assert "1 of 3 campaigns is off by more than chance; off most: at least 79 % too many." in (
        run.stdout
    )


def test_hours_of_a_day_stand_in_order_and_more_by_how_far_off_they_are(tmp_path, called):
    log = write(tmp_path / "log.parquet", table(hours=30, impressions=60))

    run = called("evaluate", log)

    assert sum(line.startswith("2026-01-0") for line in run.stdout.splitlines()) == 10
    assert "of 30 hours are off by more than chance" in run.stdout
    assert "(if all were right, up to 2 on average)" in run.stdout


def test_a_log_too_long_to_be_held_says_so(log, answered, monkeypatch):
    """Slices are numbered as their names come up, batch after batch."""
    exact = answered("evaluate", log)
    monkeypatch.setattr(evaluate, "ROOM", RowLimits(500, 300, 200))
    monkeypatch.setattr(evaluate, "BATCH_ROWS", 400)

    found = answered("evaluate", log)

    for slices in ("campaigns", "hours"):
        sizes = ({name: row["n"] for name, row in each[slices].items()} for each in (found, exact))
        assert next(sizes) == next(sizes)
    raw = found["rows"]["raw"]
    assert raw["log_loss"] == pytest.approx(exact["rows"]["raw"]["log_loss"])
    assert abs(raw["auc"] - exact["rows"]["raw"]["auc"]) <= raw["auc_error_at_most"]
    precision = found["precision"]
    assert set(precision) == {"raw", "campaigns", "hours"}
    assert found["score_cells_per_octave"] == min(
        cut["score_cells_per_octave"] for cut in precision.values()
    )
    assert found["notes"][-1].startswith("The log is too long to hold every score apart")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_told_on_a_terminal_only(log, called, answered, monkeypatch, terminal):
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")

    run = called("evaluate", log)

    assert ("reading log.parquet" in run.stderr) == terminal
    assert "reading" not in run.stdout
    assert answered("evaluate", log)["rows"]


def test_a_picture_is_drawn_and_named(tmp_path, log, called, answered):
    """In JSON it is not named, and without campaigns it is drawn, too."""
    run = called("evaluate", log, "--picture", "before.png")

    assert (tmp_path / "before.png").read_bytes().startswith(b"\x89PNG")
    assert "Picture: before.png" in run.stderr
    bare = {name: column for name, column in table().items() if name != "campaign"}
    write(log, bare)
    assert list(answered("evaluate", log, "--picture", "after.png")["rows"]) == ["raw"]
    assert (tmp_path / "after.png").exists()


def test_a_report_is_written_and_named(tmp_path, log, called):
    run = called("evaluate", log, "--by", "device", "--report", "log.html")

    page = (tmp_path / "log.html").read_text()
    assert "Evaluation of log.parquet" in page
    assert "By device" in page
    assert "Report: log.html" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--report", "log.pdf"), "log.pdf: a report's name ends in .html"),
        (("--picture", "log.bmp"), "log.bmp: a picture's name ends in"),
        (("--placement", "slot"), "--placement and --mainline go together"),
        (("--mainline", "top"), "--placement and --mainline go together"),
        (("--placement", "slot", "--mainline", "roof"), NO_MAINLINE),
    ],
)
def test_options_that_cannot_be(log, refused, arguments, expected):
    assert expected in refused("evaluate", log, *arguments)
