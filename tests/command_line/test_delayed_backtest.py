"""`sirocco backtest --delayed`."""

from functools import cache

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest

from app.cli.measure.delayed_backtest import DelayedRun, simulated
from app.cli.serving.settings import settings_with
from app.datasets.clicks import ClickFile
from app.errors import CommandError
from evaluation import ClickPlatform, ClickStream
from tests.command_line.click_logs import SHORT, write_rows, write_short

ROWS = ["none", "stc", "ltc", "pccem", "pccem_posterior", "oracle"]
COLUMNS = ["n", "positives", "pcoc", "log_loss", "auc", "gc_3", "gc_4", "gc_5"]
FIT = ("--window", "6h", "--bin-size", "100")
HOUR, DAY = 3600.0, 86_400.0


@pytest.mark.slow
def test_json_holds_the_rows_of_the_contract(tmp_path, answered):
    """Of the pooled method the same: what serves a delayed target can be judged as it serves it."""
    log = write_short(tmp_path / "clicks.parquet")
    delayed = ("backtest", log, "--delayed", "--judged", "1h", *FIT)

    answers = [answered(*delayed, "--calibrator", name, **SHORT) for name in ("sir", "pooled")]

    assert [list(answer) for answer in answers] == [["rows"], ["rows"]]
    sir, pooled = (answer["rows"] for answer in answers)
    assert list(sir) == list(pooled) == ROWS
    assert all(list(card) == COLUMNS for rows in (sir, pooled) for card in rows.values())
    assert pooled["none"] == sir["none"]
    assert pooled["oracle"]["log_loss"] != sir["oracle"]["log_loss"]


@pytest.mark.slow
def test_several_logs_are_averaged(tmp_path, answered):
    logs = [write_short(tmp_path / f"{seed}.parquet", seed) for seed in (1, 2)]

    answer = answered("backtest", *logs, "--delayed", "--judged", "1h", *FIT, **SHORT)

    assert list(answer) == ["rows", "spread", "logs"]
    assert list(answer["logs"]) == ["1.parquet", "2.parquet"]
    each = [answer["logs"][name]["pccem"]["pcoc"] for name in answer["logs"]]
    assert answer["rows"]["pccem"]["pcoc"] == pytest.approx(np.mean(each))
    assert answer["spread"]["pccem"]["pcoc"] == pytest.approx(np.std(each, ddof=1))


@pytest.mark.slow
def test_a_table_comes_with_how_to_read_it_and_a_picture(tmp_path, called):
    log = write_short(tmp_path / "clicks.parquet")
    options = ("--delayed", "--judged", "1h", *FIT, "--picture", "delayed.png")

    run = called("backtest", log, *options, **SHORT)

    title, heading, _, *table = run.stdout.splitlines()
    assert title.startswith("clicks.parquet: ")
    assert title.endswith("clicks evaluated by their final conversions")
    assert heading.split() == ["PCOC", "GC-3", "GC-4", "GC-5"]
    assert [line.split()[0] for line in table if line.strip()] == ROWS
    assert "%" not in table[0]  # There is nothing to compare it with.
    assert "PCOC is predicted over actual conversions" in run.stderr
    assert "in campaigns with 5 N conversions or more" in run.stderr
    assert "The row none is of the raw scores; oracle learns what" in run.stderr
    assert (tmp_path / "delayed.png").exists()


@pytest.mark.slow
def test_intervals_a_page_and_columns_by_name(tmp_path, answered, refused):
    """A log whose columns are called otherwise, one of them a feature."""
    table = pq.read_table(write_short(tmp_path / "clicks.parquet"))
    table = table.rename_columns(
        [{"feature.device": "device"}.get(n, n) for n in table.column_names]
    )
    pq.write_table(table, tmp_path / "other.parquet")
    backtest = ("backtest", tmp_path / "other.parquet", "--delayed", "--judged", "2h", *FIT)
    options = ("--draws", "20", "--report", "page.html", "--feature", "device")

    answer = answered(*backtest, *options, **SHORT)

    against = answer["differences"]["against"]
    assert list(against) == ["raw", "pccem_posterior"]
    assert list(against["pccem_posterior"]) == ["stc", "ltc", "pccem", "oracle"]
    page = (tmp_path / "page.html").read_text()
    assert "conversions" in page
    assert "GC-3: difference from pccem_posterior" in page
    unknown = refused(*backtest, "--feature", "nope", **SHORT)
    assert "--feature 'nope': other.parquet has no column 'nope'" in unknown


@pytest.mark.slow
def test_what_the_labels_lacked_is_said(tmp_path, called):
    """No silent fallback: without a model, the source and the reason are notes, also of a page and
    of JSON."""
    log = write_short(tmp_path / "clicks.parquet")
    lacking = {**SHORT, "SIROCCO_MIN_TRAINING_CLICKS": "1000000"}

    delayed = ("backtest", log, "--delayed", "--judged", "2h", *FIT)
    run = called(*delayed, "--draws", "0", "--report", "page.html", **lacking)
    notes = orjson.loads(called(*delayed, "--json", **lacking).stdout)["notes"]

    said = "clicks.parquet: 2 h without a post-click model; labels came from: delays."
    assert notes[0] == said
    assert notes[1].startswith("clicks.parquet: no new model on 2025-01-04: ")
    assert all(each in run.stderr for each in notes)
    assert said in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--delayed",), "--delayed: no click log is given: name one, or give --seeds"),
        (("a.parquet", "--delayed", "--seeds", 2), "give click logs, or --seeds, not both"),
        (("a.parquet", "--calibrator", "sir"), "--calibrator goes with --delayed only"),
        (("--seeds", 2), "--seeds goes with --delayed or --compare only"),
        (("a.parquet", "--judged", "2d"), "--judged goes with --delayed or --compare only"),
        (("a.parquet", "b.parquet"), "2 logs are given: give one"),
        ((), "0 logs are given: give one"),
        (("a.parquet", "--delayed", "--raw-samples"), "--raw-samples does not go with --delayed"),
        (("a.parquet", "--delayed", "--calibrators", "sir"), "--calibrators does not go with"),
        (("a.parquet", "--delayed"), "a.parquet: there is no such file"),
        (("a.parquet", "--delayed", "--judged", "2"), "--judged '2': give whole hours or days"),
    ],
)
def test_what_does_not_go_together_is_said(refused, arguments, expected):
    assert expected in refused("backtest", *arguments)


def test_a_log_that_is_too_short_says_how_long_it_must_be(tmp_path, refused):
    said = refused("backtest", write_rows(tmp_path / "two.parquet"), "--delayed")

    assert "two.parquet: no click is left to evaluate" in said
    assert "must span more than 15 days" in said


def run_of(judged_hours: int, **given: object) -> DelayedRun:
    return DelayedRun(settings_with(given), judged_hours)


PLATFORM = ClickPlatform(campaigns=1, clicks_per_hour=5)


@cache
def three_weeks() -> ClickStream:
    return PLATFORM.hours(0, 21 * 24).stream


def judged(known_until: float, judged_hours: int = 168) -> tuple[float, float]:
    """Days of the platform that are judged in 21, counted from its start."""
    file = ClickFile(three_weeks(), PLATFORM.start + known_until)
    first, until = run_of(judged_hours).evaluated_span("log", file)
    return (first - PLATFORM.start) / DAY, (until - PLATFORM.start) / DAY


def test_the_last_week_is_judged():
    """Days 14 to 20, as in the paper, when all their conversions are known."""
    assert judged(28 * DAY) == (14, 21)
    assert judged(40 * DAY) == (14, 21)
    assert judged(40 * DAY, 24) == (20, 21)


def test_a_click_is_judged_when_its_attribution_window_is_over():
    """Whole hours of clicks only."""
    assert judged(21 * DAY, 24) == (13, 14)
    assert judged(21 * DAY + 1.9 * HOUR, 1) == (14, 14 + 1 / 24)


def test_the_first_refit_has_whole_windows():
    """What was asked for is cut where the first refit would reach back before the log."""
    assert judged(28 * DAY, 1000) == (8, 21)
    with pytest.raises(CommandError, match="log: no click is left to evaluate"):
        judged(15 * DAY)


def test_without_a_delayed_target_there_is_nothing_to_do():
    with pytest.raises(CommandError, match="SIROCCO_DELAYED_TARGETS is empty"):
        _ = run_of(1, delayed_targets="").windows


@pytest.mark.slow
def test_seeds_are_the_logs_of_simulate():
    """As it writes them unless told otherwise: 21 days."""
    drawn = simulated(2)["seed 1"]().stream

    assert list(simulated(2)) == ["seed 0", "seed 1"]
    first = ClickPlatform(seed=1).hour(0).stream
    np.testing.assert_array_equal(drawn.clicks.scores[: len(first)], first.clicks.scores)
    assert np.ptp(drawn.clicks.clicked_at) == pytest.approx(21 * DAY, abs=60)
