"""Pictures are drawn whatever was found, and refused before any work where they cannot be saved."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from app.errors import FAILED, CommandError
from app.reports.pictures import check_picture, draw, draw_delayed, new_figure, save
from app.results.backtest import ScoredEvents
from evaluation import ClickPlatform, ClickStream, DelayedBacktest, EventTable, Platform

WEEK = 7 * 86_400.0
HOUR = 3600.0
PNG = b"\x89PNG"


def judged(campaigns: int, ctr: float = 0.05) -> ScoredEvents:
    hour = Platform(campaigns=campaigns, impressions_per_hour=5_000, ctr=ctr).hour(0)
    return ScoredEvents(hour.events, {"raw": hour.events.scores, "sir": hour.truth})


@pytest.mark.parametrize(
    ("campaigns", "suffix", "begun"),
    [(1, ".svg", b"<?xml"), (3, ".pdf", b"%PDF"), (40, ".PNG", PNG)],
)
def test_a_picture_is_drawn_of_any_number_of_campaigns_in_any_format(
    tmp_path, campaigns, suffix, begun
):
    path = tmp_path / f"picture{suffix}"
    check_picture(path)
    draw(judged(campaigns), ("raw", "sir"), "a log", path)

    assert path.read_bytes().startswith(begun)


def test_a_log_without_a_click_still_has_a_picture(tmp_path):
    events = EventTable.from_columns([0.0, 1.0], ["a", "b"], [0.1, 0.0], [0, 0])
    draw(ScoredEvents(events, {"raw": events.scores}), ("raw",), "a log", tmp_path / "picture.png")

    assert (tmp_path / "picture.png").exists()


def test_a_campaign_promised_nothing_does_not_break_the_picture(tmp_path):
    table = judged(3)
    nothing = np.where(table.events.rows == 0, 0.0, table.events.scores)
    draw(ScoredEvents(table.events, {"raw": nothing}), ("raw",), "a log", tmp_path / "picture.png")

    assert (tmp_path / "picture.png").exists()


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (3, 2)])
def test_a_figure_has_as_many_panels_as_asked(columns, rows):
    assert len(new_figure(columns, rows).axes) == columns * rows


def test_a_folder_that_goes_away_is_an_error_of_one_sentence(tmp_path):
    with pytest.raises(CommandError, match=r"picture\.png") as failed:
        save(new_figure(1), "title", tmp_path / "gone" / "picture.png")

    assert failed.value.exit_code == FAILED


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("picture.bmp", "ends in .png, .svg, .pdf"),
        ("nowhere/picture.png", "is a file in a folder that is there"),
    ],
)
def test_a_picture_that_cannot_be_saved_is_refused_before_the_work(tmp_path, name, expected):
    with pytest.raises(CommandError, match=expected):
        check_picture(tmp_path / name)


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


def drawn(stream: ClickStream, found: DelayedBacktest, path: Path, window: float = WEEK) -> bytes:
    draw_delayed(stream, found, window, "a log", path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("hours", "window"), [(1, 60.0), (5, HOUR), (3, 60 * 86_400.0), (80, WEEK)]
)
def test_a_delayed_backtest_is_drawn_by_hour_or_day(tmp_path, hours, window):
    """Small enough for a page, with an axis for any attribution window."""
    stream = stream_of(hours)
    found = found_on(stream, ("stc", "ltc", "pccem", "pccem_posterior", "oracle", "another"))

    picture = drawn(stream, found, tmp_path / "picture.png", window)

    assert picture.startswith(PNG)
    assert len(picture) < 150_000


def test_a_log_without_a_conversion_still_has_a_picture(tmp_path):
    stream = stream_of(3)
    never = ClickStream(stream.clicks, np.full(len(stream), np.nan))

    assert drawn(never, found_on(never, ("pccem",)), tmp_path / "picture.png").startswith(PNG)


def test_refits_without_a_label_source_are_gaps(tmp_path):
    stream = stream_of(4)
    found = found_on(stream, ("pccem", "oracle"))
    found.expected["pccem"][:2] = np.nan

    assert drawn(stream, found, tmp_path / "picture.png").startswith(PNG)
