"""The picture of a delayed backtest is drawn whatever was found."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from app.reports.pictures import draw_delayed
from evaluation import ClickPlatform, ClickStream, DelayedBacktest

PNG = b"\x89PNG"
WEEK = 7 * 86_400.0
HOUR = 3600.0


def stream_of(hours: int, cvr: float = 0.2) -> ClickStream:
    return ClickPlatform(campaigns=2, clicks_per_hour=40, cvr=cvr, seed=1).hours(0, hours).stream


def found_on(stream: ClickStream, names: tuple[str, ...]) -> DelayedBacktest:
    """Every click judged, and one refit an hour."""
    start = float(stream.clicks.clicked_at[0] // HOUR * HOUR)
    refits = np.arange(start, stream.clicks.clicked_at[-1], HOUR)
    return DelayedBacktest(
        rows=np.arange(len(stream)),
        outcomes=stream.outcomes(WEEK),
        probabilities={"none": stream.clicks.scores}
        | {name: np.full(len(stream), 0.1) for name in names},
        scorecards={},
        refits=refits,
        expected={name: np.full(len(refits), 3.0) for name in names},
        sources=Counter(model=len(refits)),
        refusals={},
    )


def draw(stream: ClickStream, found: DelayedBacktest, path: Path, window: float = WEEK) -> bytes:
    draw_delayed(stream, found, window, "a log", path)
    return path.read_bytes()


@pytest.mark.parametrize("hours", [1, 5, 80])
def test_it_is_drawn_by_hour_or_day(tmp_path: Path, hours: int) -> None:
    stream = stream_of(hours)
    found = found_on(stream, ("stc", "ltc", "pccem", "pccem_posterior", "oracle", "another"))

    assert draw(stream, found, tmp_path / "picture.png").startswith(PNG)


def test_it_is_small_enough_for_a_page(tmp_path: Path) -> None:
    stream = stream_of(80)
    found = found_on(stream, ("stc", "ltc", "pccem", "pccem_posterior", "oracle"))

    assert len(draw(stream, found, tmp_path / "picture.png")) < 150_000


def test_a_log_without_a_conversion_still_has_a_picture(tmp_path: Path) -> None:
    stream = stream_of(3)
    never = ClickStream(stream.clicks, np.full(len(stream), np.nan))

    assert draw(never, found_on(never, ("pccem",)), tmp_path / "picture.png").startswith(PNG)


def test_refits_without_a_label_source_are_gaps(tmp_path: Path) -> None:
    stream = stream_of(4)
    found = found_on(stream, ("pccem", "oracle"))
    found.expected["pccem"][:2] = np.nan

    assert draw(stream, found, tmp_path / "picture.png").startswith(PNG)


@pytest.mark.parametrize("window", [60.0, HOUR, 60 * 86_400.0])
def test_any_attribution_window_has_its_axis(tmp_path: Path, window: float) -> None:
    stream = stream_of(3)

    assert draw(stream, found_on(stream, ("stc",)), tmp_path / "p.svg", window)[:5] == b"<?xml"
