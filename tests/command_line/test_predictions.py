"""`sirocco backtest --output`: each row's probability by method."""

from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets import predictions
from evaluation import log_loss
from tests.command_line.logs import columns, events, write

QUICK = ("--window", "3h", "--calibrators", "sir,pooled", "--draws", "0", "--json")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two parts with a bad row, weights, and a weight of 0."""
    table = events(9, 300)
    order = np.random.default_rng(3).permutation(len(table))
    held = columns(table.select(order))
    held["weight"] = np.random.default_rng(4).integers(0, 3, len(table)).astype(float)
    held["score"][5] = 1.5
    (tmp_path / "log").mkdir()
    for name, part in (("a", slice(0, 700)), ("b", slice(700, None))):
        write(tmp_path / f"log/{name}.parquet", {k: v[part] for k, v in held.items()})
    return tmp_path / "log"


@pytest.mark.slow
def test_the_log_loss_follows_from_the_file(tmp_path, log, called, monkeypatch):
    monkeypatch.setattr(predictions, "_GROUP_ROWS", 500)
    options = (*QUICK, "--skip-bad", "--weights", "weight")

    run = called("backtest", log, *options, "--output", "predictions.parquet")

    assert run.returncode == 0, run.stderr
    cards = orjson.loads(run.stdout)["rows"]
    rows = pa.concat_tables([pq.read_table(path) for path in sorted(log.iterdir())])
    written = pq.read_table(tmp_path / "predictions.parquet")
    assert set(written["method"].to_pylist()) == set(cards) == {"raw", "sir", "pooled"}
    for name, card in cards.items():
        mine = written.filter(pa.compute.equal(written["method"].cast(pa.string()), name))
        number = mine["row"].to_numpy()
        assert len(set(number.tolist())) == len(number)
        outcomes, weights = (rows[c].to_numpy()[number] for c in ("outcome", "weight"))
        found = log_loss(mine["probability"].to_numpy(), outcomes, sample_weight=weights)
        assert found == pytest.approx(card["log_loss"], rel=1e-9)
        assert weights.sum() == card["n"]
    raw = written.filter(pa.compute.equal(written["method"].cast(pa.string()), "raw"))
    np.testing.assert_array_equal(
        raw["probability"].to_numpy(), rows["score"].to_numpy()[raw["row"].to_numpy()]
    )
    assert pq.ParquetFile(tmp_path / "predictions.parquet").num_row_groups > 3


@pytest.mark.slow
def test_nothing_is_overwritten_unasked(tmp_path, log, called):
    (tmp_path / "there.parquet").write_bytes(b"mine")

    refused = called("backtest", log, *QUICK, "--skip-bad", "--output", "there.parquet")
    failed = called("backtest", log, *QUICK, "--output", "there.parquet", "--force")

    assert refused.returncode == failed.returncode == 2
    assert "there.parquet: --output is there already; --force replaces it" in refused.stderr
    assert (tmp_path / "there.parquet").read_bytes() == b"mine"
    done = called("backtest", log, *QUICK, "--skip-bad", "--output", "there.parquet", "--force")
    assert done.returncode == 0
    assert pq.read_schema(tmp_path / "there.parquet").equals(predictions.SCHEMA)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "there.parquet"]


def test_a_log_too_long_to_hold_has_no_rows_to_write(log, refused, monkeypatch):
    monkeypatch.setattr("app.cli.measure.backtest.MOST_ROWS", 1_000)

    said = refused("backtest", log, *QUICK, "--skip-bad", "--output", "predictions.parquet")

    assert "--output: the log has" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--output", "x.csv"), "x.csv: --output is Parquet"),
        (("--output", "no/x.parquet"), "--output is a file in a folder that is there"),
        (("--output", "x.parquet", "--delayed"), "--output does not go with --delayed"),
        (("--output", "x.parquet", "--compare"), "--output does not go with --compare"),
    ],
)
def test_outputs_that_cannot_be(log, refused, arguments, expected):
    assert expected in refused("backtest", log, *arguments)
