"""`sirocco evaluate` and `sirocco backtest`."""

from pathlib import Path

import orjson
import pytest

from calibrators import CALIBRATORS
from evaluation import scorecard
from tests.command_line.conftest import Sirocco
from tests.command_line.logs import events, write_log


def test_evaluate_has_the_scorecard_of_the_scores(tmp_path: Path, called: Sirocco) -> None:
    table = events()
    log = write_log(tmp_path / "log.parquet", table)

    run = called("evaluate", log, "--json", "--picture", "before.png")

    expected = scorecard(table.scores, table.outcomes, table.rows)
    rows = orjson.loads(run.stdout)["rows"]
    assert list(rows) == ["raw"]
    assert {name: rows["raw"][name] for name in expected} == pytest.approx(expected)
    assert run.stderr == ""
    assert (tmp_path / "before.png").exists()


def test_backtest_compares_every_calibrator(tmp_path: Path, called: Sirocco) -> None:
    log = write_log(tmp_path / "log.parquet", events(hours=4))

    run = called("backtest", log, "--window", "2h", "--bin-size", "50", "--json")

    assert run.returncode == 0, run.stderr
    compared = ["pooled", *(name for name in CALIBRATORS if name != "identity")]
    assert list(orjson.loads(run.stdout)["rows"]) == ["raw", *compared]


def test_backtest_on_raw_samples_is_another_fit(tmp_path: Path, called: Sirocco) -> None:
    log = write_log(tmp_path / "log.parquet", events(hours=5))
    backtest = ("backtest", log, "--window", "2h", "--bin-size", "50", "--json")
    common = (*backtest, "--calibrators", "sir")

    bins, raw = (orjson.loads(called(*common, *more).stdout) for more in ((), ("--raw-samples",)))

    assert bins["rows"]["raw"] == raw["rows"]["raw"]
    assert bins["rows"]["sir"] != raw["rows"]["sir"]


def test_backtest_gives_each_version_of_the_model_its_own_maps(
    tmp_path: Path, called: Sirocco
) -> None:
    rows = ["time,campaign,score,outcome,model"]
    for n in range(3000):
        model, score = ("v2", 0.1) if n % 2 else ("", 0.2)
        rows.append(f"{3_600 * 470_000 + 6 * n},c{n % 3},{score},{int(n % 10 < 2)},{model}")
    (tmp_path / "log.csv").write_text("\n".join(rows))
    backtest = ("backtest", tmp_path / "log.csv", "--window", "2h", "--calibrators", "pooled")

    blind, named = (
        orjson.loads(called(*backtest, "--draws", "0", "--json", *more).stdout)["rows"]
        for more in ((), ("--model-version", "model"))
    )

    assert named["raw"] == blind["raw"]
    assert named["pooled"] != blind["pooled"]


def test_numbers_come_with_how_to_read_them_and_a_picture(tmp_path: Path, called: Sirocco) -> None:
    log = write_log(tmp_path / "log.parquet", events(hours=2))

    run = called("evaluate", log, "--picture", "before.png")

    assert run.stdout.startswith("log.parquet: ")
    assert "predicted over actual: 1 is right" in run.stdout
    assert "Picture: before.png" in run.stderr


@pytest.mark.parametrize("names", ["nonsense", "sir,nonsense", ","])
def test_an_unknown_calibrator_lists_those_that_exist(
    tmp_path: Path, called: Sirocco, names: str
) -> None:
    run = called("backtest", tmp_path / "log.parquet", "--calibrators", names)

    assert run.returncode == 2
    assert all(name in run.stderr for name in CALIBRATORS)
