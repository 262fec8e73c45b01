"""The report and the picture of the leaderboard, as a browser shows them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pytest

from app.reports.page import write_page
from research.leaderboard.page import leaderboard_page
from research.leaderboard.picture import (
    LEFTWARD,
    RIGHTWARD,
    Dot,
    Text,
    leaderboard_chart,
    leaderboard_picture,
)
from research.leaderboard.result_file import EXCESS, Leaderboard
from tests.reports.looked_at import check_readable, looked_at
from tests.research.leaderboard.sample import REASON, result, traffic_result

pytestmark = pytest.mark.slow

WINDOWS = [(1280, "light"), (390, "dark"), (320, "light")]


@pytest.fixture(scope="module")
def report() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "leaderboard.html"
        write_page(leaderboard_page(result(), "Made by: a test"), path)
        yield path


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_it_is_whole_and_readable(browser, report, width, scheme):
    with looked_at(browser, report, width=width, scheme=scheme) as seen:
        check_readable(seen, report)


def test_who_did_not_run_is_named_with_the_reason(browser, report):
    with looked_at(browser, report) as seen:
        assert f"mcgrad did not run: {REASON}" in seen.page.locator(".warnings").inner_text()


def test_a_missed_target_stands_in_the_verdict_and_in_the_table(browser, report):
    """pooled has 96 % of the excess of LightGBM in steps, where 70 % is the limit."""
    with looked_at(browser, report) as seen:
        said = seen.page.locator(".verdict").inner_text()
        assert "Missed in steps: excess of the better of LightGBM and MCGrad" in said
        assert seen.page.get_by_text("missed: 0.96 (0.86-1.06)").count() == 1


def test_without_a_hero_there_are_tables_only():
    """A leaderboard without pooled has no targets, and says so."""
    found = traffic_result("mixed")
    rows = {name: row for name, row in found.rows.items() if name != "pooled"}
    without = replace(found, rows=rows, differences={}, ratios={})
    page = leaderboard_page(Leaderboard([without], []), "")

    assert page.verdict.startswith("No targets")
    assert [section.title for section in page.sections] == ["mixed"]


def test_the_picture_is_well_formed_and_knows_the_dark():
    text = leaderboard_picture(result()).svg()

    assert ElementTree.fromstring(text).get("viewBox")
    assert "prefers-color-scheme: dark" in text
    assert "url(" not in text


def test_the_picture_says_how_much_is_left():
    """In percent of SIR as published: 28.4 of 150, 48 of 848, 3 of 138; and the mean of the first
    two, because the scores of the third are the truth."""
    marks = leaderboard_picture(result()).marks
    said = [m.text for m in marks if isinstance(m, Text) and m.align == "right"]

    assert said == ["19 %", "5.7 %", "2.2 %", "10 %"]


def test_what_lies_beyond_the_axis_stands_at_its_edge():
    """Scores that are the truth have no excess, and 2.2 % has no place on the axis either; the
    nearer to the truth stands farther out."""
    marks = leaderboard_picture(result()).marks
    dots = [mark for mark in marks if isinstance(mark, Dot)]

    assert [dot.fill for dot in dots if dot.corners == LEFTWARD] == ["card", "series-2"]
    outer, inner = (dot.x for dot in dots if dot.corners == LEFTWARD)
    assert outer < inner
    assert [dot.fill for dot in dots if dot.corners == RIGHTWARD] == ["muted"]


def test_the_same_picture_is_drawn_through_matplotlib(tmp_path):
    path = tmp_path / "leaderboard.png"
    leaderboard_picture(result()).figure().savefig(path)

    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_chart_of_a_page_has_no_style_of_its_own():
    text = leaderboard_chart(result(), EXCESS, "Excess <b>").inline()

    assert "<style" not in text
    assert 'aria-label="Excess &lt;b&gt;"' in text
