from pathlib import Path

import numpy as np
import pytest

from app.reports.pictures import check_picture, draw
from app.results.backtest import ScoredEvents
from evaluation import EventTable, Platform

PNG = b"\x89PNG"


def judged(campaigns: int, ctr: float = 0.05) -> ScoredEvents:
    hour = Platform(campaigns=campaigns, impressions_per_hour=5_000, ctr=ctr).hour(0)
    return ScoredEvents(hour.events, {"raw": hour.events.scores, "sir": hour.truth})


@pytest.mark.parametrize("campaigns", [1, 3, 40])
def test_a_picture_is_drawn_for_any_number_of_campaigns(tmp_path: Path, campaigns: int) -> None:
    draw(judged(campaigns), ("raw", "sir"), "a log", tmp_path / "picture.png")

    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".PNG"])
def test_the_name_tells_the_format(tmp_path: Path, suffix: str) -> None:
    check_picture(tmp_path / f"picture{suffix}")
    draw(judged(1), ("raw",), "a log", tmp_path / f"picture{suffix}")

    assert (tmp_path / f"picture{suffix}").stat().st_size > 1000


def test_a_log_without_a_click_still_has_a_picture(tmp_path: Path) -> None:
    events = EventTable.from_columns([0.0, 1.0], ["a", "b"], [0.1, 0.0], [0, 0])
    draw(ScoredEvents(events, {"raw": events.scores}), ("raw",), "a log", tmp_path / "picture.png")

    assert (tmp_path / "picture.png").exists()


def test_a_campaign_promised_nothing_does_not_break_the_picture(tmp_path: Path) -> None:
    table = judged(3)
    nothing = np.where(table.events.rows == 0, 0.0, table.events.scores)
    draw(ScoredEvents(table.events, {"raw": nothing}), ("raw",), "a log", tmp_path / "picture.png")

    assert (tmp_path / "picture.png").exists()
