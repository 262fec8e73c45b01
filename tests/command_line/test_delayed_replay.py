"""`sirocco replay --delayed`: clicks, behaviours and late conversions through the real service."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow.parquet as pq
import pytest

from app.cli.measure.delayed_backtest import DelayedRun
from app.cli.serving.replay import DelayedReplay
from app.cli.serving.settings import settings_with
from app.datasets.clicks import ClickColumns, read_click_log, write_click_log
from app.results.backtest import ScoredEvents
from evaluation import ClickPlatform, ClickStream, EventTable, scorecard
from evaluation.backtest.event_table import scorecards
from tests.command_line.conftest import python_path

HOUR = 3600.0
AFTERNOON = 1_735_689_600.0 + 16 * HOUR
FIT = {"window_hours": 3, "bin_size": 100}
WINDOW = {"SIROCCO_ATTRIBUTION_HOURS": "conversion=4", "SIROCCO_MIN_TRAINING_CONVERSIONS": "50"}


def drawn(hours: int) -> ClickStream:
    platform = ClickPlatform(campaigns=3, clicks_per_hour=600, cvr=0.5, seed=5, start=AFTERNOON)
    return platform.hours(0, hours).stream


def written(path: Path, stream: ClickStream) -> Path:
    known_until = float(stream.clicks.clicked_at[-1]) + 7 * 24 * HOUR
    write_click_log(path, [stream], known_until)
    return path


@pytest.fixture
def four_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions count for four hours, here and in processes that are started."""
    for name, text in {**WINDOW, "PYTHONPATH": python_path()}.items():
        monkeypatch.setenv(name, text)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("four_hours", "in_this_process")
@pytest.mark.parametrize(("calibrator", "rtol"), [("sir", 1e-12), ("pooled", 1e-4)])
def test_the_service_and_the_backtest_are_one_code(tmp_path, calibrator, rtol):
    """Every probability that the service gave is that of the backtest. At the first midnight there
    is a delay distribution, at the second, after 32 hours, the first model."""
    log = written(tmp_path / "clicks.parquet", drawn(36))

    fit = {**FIT, "calibrator": calibrator, "guard": False}
    online = DelayedReplay(None, fit, scored_hours=8).run(log, ClickColumns(), quiet=True)

    run = DelayedRun(settings_with(fit), scored_hours=8)
    offline = run.backtest(log.name, read_click_log(log), quiet=True)
    assert offline.sources == {"delays": 4, "model": 4}
    assert list(online.predictions) == ["raw", "pccem_posterior"]
    np.testing.assert_array_equal(online.events.outcomes, offline.outcomes)
    np.testing.assert_array_equal(online.predictions["raw"], offline.probabilities["none"])
    served = online.predictions["pccem_posterior"]
    np.testing.assert_allclose(served, offline.probabilities["pccem_posterior"], rtol=rtol)
    cards = scorecards(online.events, online.predictions)
    assert abs(cards["pccem_posterior"]["pcoc"] - 1.0) < 0.25


class Started(Exception):
    """In place of a service: what it would have been started with."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings


@pytest.fixture
def no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(settings: Mapping[str, Any]) -> NoReturn:
        raise Started(settings)

    monkeypatch.setattr("app.cli.serving.replay.private_service", start)


@pytest.mark.usefixtures("no_service", "four_hours")
@pytest.mark.parametrize(
    ("target", "labels", "expected"),
    [
        (None, "posterior", {"delayed_targets": ("conversion",), "drift_correction": True}),
        (None, "paper", {"attribution_hours": {"conversion": 4}, "drift_correction": False}),
        ("install", "paper", {"targets": ("click",), "attribution_hours": {"install": 168}}),
        ("click", "paper", {"targets": ("impression",), "delayed_targets": ("click",)}),
    ],
)
def test_a_service_of_its_own_is_set_up_for_the_log(
    tmp_path, monkeypatch, target, labels, expected
):
    """Labels as in the backtest's row: the paper's have no drift correction."""
    monkeypatch.setenv("SIROCCO_LABELS", labels)
    stream = drawn(2)
    far = stream.clicks.clicked_at + np.where(np.arange(len(stream)) < len(stream) // 2, 0, 1e6)
    apart = ClickStream(
        type(stream.clicks)(
            far, stream.clicks.campaigns, stream.clicks.rows, stream.clicks.scores,
            stream.clicks.features,
        ),
        stream.delay,
    )  # fmt: skip
    log = written(tmp_path / "clicks.parquet", apart)

    with pytest.raises(Started) as started:
        DelayedReplay(target, {**FIT, "bin_size": None}, 12).run(log, ClickColumns(), quiet=True)

    settings = started.value.settings
    assert settings == {**settings, **expected}
    assert set(settings["behaviours"]) == {
        "session_seconds", "page_views", "add_to_cart", "favorites", "purchases",
    }  # fmt: skip
    assert settings["window_hours"] == 3


@pytest.mark.usefixtures("no_service", "four_hours")
def test_fields_are_declared_to_the_service_and_are_no_behaviours(tmp_path, called):
    log = written(tmp_path / "clicks.parquet", drawn(16))
    table = pq.read_table(log).rename_columns({"feature.device": "device"})
    pq.write_table(table, log)

    with pytest.raises(Started) as started:
        called("replay", log, "--delayed", "--fields", "device", "--window", "3h")

    settings = started.value.settings
    assert settings["fields"] == ("device",)
    assert "device" not in settings["behaviours"]


def test_the_table_is_that_of_the_backtest(tmp_path, called, answered, monkeypatch):
    stream = drawn(12)
    clicks, outcomes = stream.clicks, stream.outcomes(4 * HOUR)
    events = EventTable(clicks.clicked_at, clicks.campaigns, clicks.rows, clicks.scores, outcomes)
    served = {"raw": clicks.scores, "pccem_posterior": clicks.scores / 5}
    monkeypatch.setattr(DelayedReplay, "run", lambda *_, **__: ScoredEvents(events, served))

    run = called("replay", "clicks.parquet", "--delayed", "--picture", "after.png")

    assert run.returncode == 0, run.stderr
    title, headings, _, *table = run.stdout.splitlines()
    judged = f"{len(stream):,} clicks evaluated by their final conversions"
    assert title == f"clicks.parquet: {judged}"
    assert headings.split() == ["PCOC", "GC-3", "GC-4", "GC-5"]
    assert [line.split()[0] for line in table if line.strip()] == ["raw", "pccem_posterior"]
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert "predicted over actual conversions" in run.stderr
    assert (tmp_path / "after.png").exists()

    rows = answered("replay", "clicks.parquet", "--delayed", "--no-picture")["rows"]
    assert rows == {
        name: pytest.approx(scorecard(p, outcomes, clicks.rows)) for name, p in served.items()
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--judged", "2d"), "--judged goes with --delayed only"),
        (("--delayed", "--judged", "two days"), "--judged 'two days': give whole hours or days"),
        (("--delayed",), "no click is left to evaluate"),
        (("--delayed", "--model-version", "score"), "--model-version does not go with --delayed"),
        (("--delayed", "--url", "http://127.0.0.1:9", "--bin-size", "9"), "--bin-size is a setti"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path, refused, options, expected):
    log = written(tmp_path / "clicks.parquet", drawn(3))

    assert expected in refused("replay", log, *options)


@pytest.mark.usefixtures("four_hours")
def test_a_service_of_ones_own_that_is_away(tmp_path, called):
    log = written(tmp_path / "clicks.parquet", drawn(16))

    run = called("replay", log, "--delayed", "--window", "6h", "--url", "http://127.0.0.1:9")

    assert run.returncode == 1
    assert "http://127.0.0.1:9 does not answer" in run.stderr
