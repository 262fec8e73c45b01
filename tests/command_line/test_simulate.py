"""`sirocco simulate`."""

from pathlib import Path

import numpy as np

from app.command_line.click_files import read_click_log
from evaluation import ClickPlatform
from tests.command_line.conftest import Sirocco

SMALL = ("--days", 2, "--clicks", 40, "--campaigns", 3)


def test_the_log_is_the_platform(tmp_path: Path, called: Sirocco) -> None:
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


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, called: Sirocco) -> None:
    for name in ("a.parquet", "b.parquet"):
        called("simulate", name, *SMALL)

    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_log_that_cannot_be_written_is_one_sentence(called: Sirocco) -> None:
    run = called("simulate", "nowhere/clicks.parquet", *SMALL)

    assert run.returncode == 2
    assert run.stderr.strip().startswith("sirocco: nowhere/clicks.parquet: ")
