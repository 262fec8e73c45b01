"""`sirocco backtest`: every calibrator, which differ beyond chance, and the page of all of it."""

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.cli.main import main
from app.datasets.impressions import LogColumns, read_events
from calibrators import CALIBRATORS
from evaluation import EventTable, Platform
from tests.command_line.logs import START, columns, events, write_log

QUICK = ("--window", "6h", "--bin-size", "50", "--draws", "100")


@pytest.fixture(scope="module")
def days() -> EventTable:
    """Seven hours before midnight and seven after it, of six campaigns whose scores are wrong: with
    a window of six hours, twelve campaign-days are evaluated."""
    start = START // 86_400 * 86_400 - 7 * 3_600
    platform = Platform(campaigns=6, impressions_per_hour=1_000, ctr=0.1, start=start, seed=2)
    return platform.hours(0, 14).events


@pytest.fixture
def short(tmp_path: Path, days: EventTable) -> Path:
    """Their first eight hours or so, as a file."""
    return write_log(tmp_path / "short.parquet", days.select(np.arange(3 * len(days) // 5)))


@pytest.fixture(scope="module")
def compared(days: EventTable, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str]:
    """Three calibrators: the answer, and the page."""
    folder = tmp_path_factory.mktemp("compared")
    write_log(folder / "log.parquet", days)
    options = ("--calibrators", "sir,isotonic,beta", "--json", "--report", "page.html")
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["sirocco", "backtest", "log.parquet", *QUICK, *options])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code in (0, None)
    return orjson.loads(output.getvalue()), (folder / "page.html").read_text(encoding="utf-8")


def test_backtest_compares_every_calibrator(tmp_path, answered, refused):
    """On raw samples all but what learns from bins."""
    log = write_log(tmp_path / "log.parquet", events(hours=4))
    backtest = ("backtest", log, "--window", "2h", "--bin-size", "50", "--draws", "0")

    bins, raw = (list(answered(*backtest, *more)["rows"]) for more in ((), ("--raw-samples",)))
    said = refused(*backtest, "--raw-samples", "--calibrators", "pooled")

    others = [name for name in CALIBRATORS if name != "identity"]
    assert (bins, raw) == (["raw", "pooled", *others], ["raw", *others])
    assert "--raw-samples: pooled learns from bins of all campaigns" in said


def test_backtest_on_raw_samples_is_another_fit(tmp_path, answered):
    log = write_log(tmp_path / "log.parquet", events(hours=5))
    sir = ("backtest", log, "--window", "2h", "--bin-size", "50", "--calibrators", "sir")

    bins, raw = (answered(*sir, *more)["rows"] for more in ((), ("--raw-samples",)))

    assert bins["raw"] == raw["raw"]
    assert bins["sir"] != raw["sir"]


def test_backtest_gives_each_version_of_the_model_its_own_maps(tmp_path, answered):
    rows = ["time,campaign,score,outcome,model"]
    for n in range(1400):
        model, score = ("v2", 0.1) if n % 2 else ("", 0.2)
        rows.append(f"{3_600 * 470_000 + 6 * n},c{n % 3},{score},{int(n % 10 < 2)},{model}")
    (tmp_path / "log.csv").write_text("\n".join(rows))
    pooled = ("backtest", "log.csv", "--window", "2h", "--calibrators", "pooled", "--draws", "0")

    blind, named = (answered(*pooled, *more)["rows"] for more in ((), ("--model-version", "model")))

    assert named["raw"] == blind["raw"]
    assert named["pooled"] != blind["pooled"]


@pytest.mark.parametrize("names", ["nonsense", "sir,nonsense", ",", ""])
def test_an_unknown_calibrator_lists_those_that_exist(refused, names):
    said = refused("backtest", "log.parquet", "--calibrators", names)

    assert all(name in said for name in CALIBRATORS)
    assert f"--calibrators {names!r}: give some of" in said


@pytest.mark.parametrize("names", ["", " ,"])
def test_an_empty_list_of_fields_is_refused(refused, names):
    said = f"--fields {names!r}: give names, comma-separated"
    assert said in refused("backtest", "log.parquet", "--fields", names)


@pytest.mark.slow
def test_every_calibrator_against_raw_and_against_sir(compared):
    found, _ = compared

    against = found["differences"]["against"]
    assert list(against) == ["raw", "sir"]
    assert list(against["raw"]) == ["sir", "isotonic", "beta"]
    assert list(against["sir"]) == ["isotonic", "beta"]
    rows = found["rows"]
    for metric, difference in against["raw"]["sir"].items():
        assert difference["value"] == pytest.approx(rows["sir"][metric] - rows["raw"][metric])
    assert found["differences"]["unit"] == "campaign-days"
    assert found["differences"]["draws"] == {"log_loss": 100, "gc_3": 100, "auc": 100}


@pytest.mark.slow
def test_pooled_is_one_of_those_that_are_compared(answered, short):
    """The others are compared with the method of the settings, which it is."""
    some = answered("backtest", short, *QUICK, "--calibrators", "pooled,sir")

    assert list(some["differences"]["against"]) == ["raw", "pooled"]
    assert some["rows"]["pooled"]["log_loss"] < some["rows"]["raw"]["log_loss"]


@pytest.mark.slow
def test_the_verdict_is_a_sentence(compared):
    found, _ = compared

    verdict = found["differences"]["verdict"]
    assert verdict.startswith("sir beats raw: log loss -0.0")
    assert verdict.endswith("isotonic is worse than sir; beta cannot be told apart from sir.")
    assert found["differences"]["against"]["raw"]["sir"]["log_loss"]["verdict"] == "better"


@pytest.mark.slow
def test_another_reference(answered, short):
    backtest = (short, *QUICK, "--calibrators", "isotonic,beta")

    best, named, raw = (
        answered("backtest", *backtest, *more)["differences"]["against"]
        for more in ((), ("--against", "isotonic"), ("--against", "raw"))
    )

    assert (list(best), list(named), list(raw)) == (["raw", "beta"], ["raw", "isotonic"], ["raw"])


def test_an_unknown_reference_lists_those_that_are_compared(refused):
    said = refused("backtest", "log.parquet", "--calibrators", "sir,beta", "--against", "platt")

    assert "--against 'platt': give one of raw, sir, beta" in said


@pytest.mark.slow
def test_without_draws_there_are_no_differences(tmp_path, called, answered, days):
    log = write_log(tmp_path / "log.parquet", days)
    backtest = (log, "--window", "6h", "--calibrators", "sir", "--draws", "0")

    assert list(answered("backtest", *backtest)) == ["rows"]
    run = called("backtest", *backtest, "--report", "page.html")
    assert "Difference from" not in run.stdout
    assert "Beyond chance?" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_json_says_what_was_skipped(answered, short):
    table = pq.read_table(short)
    score = table.column_names.index("score")
    bad = table.slice(0, 1).set_column(score, "score", pa.array([7.0]))
    pq.write_table(pa.concat_tables([table, bad]), short)
    quick = ("--window", "6h", "--calibrators", "sir", "--draws", "0", "--skip-bad")

    assert answered("backtest", short, *quick)["notes"][0].startswith("1 row was skipped: ")


@pytest.mark.slow
def test_tables_fit_a_terminal_and_say_how_to_read_them(tmp_path, called, days):
    log = write_log(tmp_path / "log.parquet", days)

    run = called("backtest", log, *QUICK, "--calibrators", "sir,isotonic")

    tables, _, verdict = run.stdout.strip().rpartition("\n\n")
    assert max(map(len, tables.splitlines())) <= 80
    assert "Difference from raw" in tables
    assert "Difference from sir" in tables
    assert "sir beats raw" in verdict
    assert "95 % intervals over" in run.stderr
    assert "of 20 equal pairs, one shows it" in run.stderr


def test_a_short_log_is_drawn_by_the_hour(tmp_path, answered):
    """And says that its intervals are too narrow."""
    log = write_log(tmp_path / "log.parquet", events(hours=6))

    found = answered("backtest", log, "--window", "2h", "--calibrators", "sir")

    assert found["differences"]["unit"] == "campaign-hours"
    assert "fewer than 10 campaign-days" in found["differences"]["warnings"][0]


@pytest.mark.slow
def test_effects_of_fields_are_served(tmp_path, answered):
    """Half of the impressions have odds that are three times those of the others."""
    table = Platform(
        campaigns=3, impressions_per_hour=1_500, ctr=0.1, start=START, seed=4
    ).hours(0, 9).events  # fmt: skip
    rng = np.random.default_rng(5)
    ios = rng.random(len(table)) < 0.5
    odds = table.scores / (1 - table.scores) * np.where(ios, 1.7, 0.57)
    outcomes = (rng.random(len(table)) < odds / (1 + odds)).astype(float)
    held = columns(table) | {"outcome": outcomes, "device": np.where(ios, "ios", "web")}
    pq.write_table(pa.table(held), tmp_path / "log.parquet")
    asked = (tmp_path / "log.parquet", *QUICK, "--draws", "0", "--calibrators", "pooled")
    without = answered("backtest", *asked)["rows"]["pooled"]["log_loss"]
    with_fields = answered("backtest", *asked, "--fields", "device")["rows"]["pooled"]["log_loss"]
    assert with_fields < without - 0.005


def test_identity_is_raw(called, short):
    """The title says which hours its maps would learn from; without draws that is all."""
    identity = ("backtest", short, *QUICK[:4], "--calibrators", "identity", "--draws")
    bare, told = (called(*identity, draws).stdout for draws in (0, 100))

    assert told.startswith(bare)
    assert told.endswith("\nidentity and raw give the same probabilities.\n")
    assert ": each hour evaluated with maps of the 6 h before it" in " ".join(told.split())


@pytest.mark.slow
def test_a_seed_is_an_answer(answered, short):
    """Whatever else is compared."""

    def interval(names: str, seed: int) -> Any:
        found = answered("backtest", short, *QUICK, "--calibrators", names, "--seed", seed)
        return found["differences"]["against"]["raw"]["temperature"]["log_loss"]

    four = interval("temperature", 4)
    assert four == interval("beta,temperature", 4)
    assert four != interval("temperature", 5)


@pytest.mark.slow
def test_the_page_shows_before_and_after(compared):
    found, page = compared

    assert found["differences"]["verdict"] in page
    for title in (
        "Predicted and observed",
        "Error from low scores to high",
        "hour by hour",
        "by campaign",
        "log loss by calibrator",
        "GC-3 by calibrator",
        "GC-3: difference from raw",
        "log loss: difference from sir",
    ):
        assert title in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    "arguments",
    [("--output", "rows.parquet"), ("--against", "sir"), ("--report", "page.html"),
     ("--draws", "5"), ("--seed", "1")],
)  # fmt: skip
def test_what_does_not_go_with_delayed(refused, arguments):
    said = refused("backtest", "--delayed", "--seeds", "2", *arguments)

    assert f"{arguments[0]} does not go with --delayed" in said or (
        f"{arguments[0]} goes with --delayed of one log only" in said
    )


def test_a_long_log_is_read_as_cells(tmp_path, days):
    """Beyond the budget rows stand for several; below it they are as they came."""
    log = write_log(tmp_path / "log.parquet", days)

    whole, together = (
        read_events(log, LogColumns(), lambda done: None, most_rows=most).events
        for most in (10**6, 1_000)
    )

    assert whole.weights is None
    assert len(whole) == len(days)
    assert len(together) < len(days)
    assert together.counts.sum() == len(days)
    assert together.positives.sum() == pytest.approx(days.outcomes.sum())


@pytest.mark.slow
def test_a_long_log_says_so(tmp_path, called, answered, days, monkeypatch):
    """Its table counts impressions, not rows, and its numbers are nearly those of all."""
    log = write_log(tmp_path / "log.parquet", days)
    backtest = (log, *QUICK, "--calibrators", "sir")
    exact = answered("backtest", *backtest)["rows"]["sir"]
    monkeypatch.setattr("app.cli.measure.backtest.MOST_ROWS", 1_000)

    run = called("backtest", *backtest, "--picture", "picture.png")
    found = answered("backtest", *backtest)["rows"]["sir"]

    assert f"The log has {len(days):,} rows, more than 1,000" in run.stderr
    assert found["n"] == exact["n"]
    assert found["log_loss"] == pytest.approx(exact["log_loss"], rel=1e-3)
    assert (tmp_path / "picture.png").exists()


def test_single_samples_need_single_rows(tmp_path, refused, days, monkeypatch):
    log = write_log(tmp_path / "log.parquet", days)
    monkeypatch.setattr("app.cli.measure.backtest.MOST_ROWS", 1_000)

    said = refused("backtest", log, *QUICK, "--calibrators", "sir", "--raw-samples")

    assert f"--raw-samples: the log has {len(days):,} rows" in said


def test_hours_of_a_log_are_in_any_order(tmp_path, days):
    """Times of cells are those of their hours."""
    log = write_log(tmp_path / "log.parquet", days)

    table = read_events(log, LogColumns(), lambda done: None, most_rows=10).events

    assert set(table.hours.tolist()) == set(days.hours.tolist())
    assert np.all(table.times % 3600 == 0)


def test_a_log_without_rows(tmp_path, refused, days):
    log = write_log(tmp_path / "log.parquet", days.select(np.empty(0, int)))

    assert refused("backtest", log).endswith("log.parquet: the log has no rows")
