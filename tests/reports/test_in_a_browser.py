"""A report in a real browser: whole, readable and harmless."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Browser, Locator, Page

from app.reports.page import write_page
from tests.reports.looked_at import Seen, looked_at
from tests.reports.sample_page import sample_page

DESKTOP, PHONE = 1280, 390
WINDOWS = list(product((DESKTOP, PHONE), ("light", "dark")))
PAPER = (
    "[getComputedStyle(document.body).backgroundColor,"
    " getComputedStyle(document.documentElement).colorScheme]"
)
LEAST_CONTRAST, LEAST_SIZE = 4.5, 9.0


@pytest.fixture(scope="module")
def report() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_page(sample_page(), path)
        yield path


@pytest.fixture(scope="module", params=WINDOWS, ids=lambda window: f"{window[0]}-{window[1]}")
def seen(browser: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Seen]:
    width, scheme = request.param
    with looked_at(browser, report, width=width, scheme=scheme) as found:
        yield found


@pytest.fixture(scope="module")
def desktop(browser: Browser, report: Path) -> Iterator[Page]:
    with looked_at(browser, report) as found:
        yield found.page


def test_it_needs_nothing_but_the_file(seen, report):
    """One request, of the file itself, and the browser complains of nothing."""
    assert [url for url in seen.requests if not url.startswith("data:")] == [
        report.absolute().as_uri()
    ]
    assert seen.problems == []


def test_it_is_not_wider_than_its_window(seen):
    """Folded and unfolded: wide tables scroll inside their own boxes."""
    folded = seen.overflow()
    seen.open_all()

    assert folded <= 0
    assert seen.overflow() <= 0


def test_all_text_stands_out(seen):
    """The contrast of every text, in and outside drawings."""
    seen.open_all()
    texts = seen.texts()

    assert len(texts) > 300
    assert [found for found in texts if found["contrast"] < LEAST_CONTRAST] == []


def test_all_text_is_large_enough_to_read(seen):
    assert [found for found in seen.texts() if found["size"] < LEAST_SIZE] == []


def test_no_text_of_a_drawing_is_cut_off(seen):
    assert seen.cut_off() == []


def test_charts_stand_side_by_side_only_where_there_is_room(seen):
    lefts: list[float] = seen.page.locator("figure").evaluate_all(
        "found => found.map((figure) => figure.getBoundingClientRect().left)"
    )
    width = seen.page.viewport_size["width"]

    assert len(set(map(round, lefts))) == {DESKTOP: 2, PHONE: 1}[width]


def test_headings_go_down_one_step_at_a_time(seen):
    levels = seen.levels()

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_ids_are_there_once(seen):
    assert [name for name, count in Counter(seen.ids()).items() if count > 1] == []


def test_names_from_a_log_are_text_only(seen):
    """No script, image or handler comes out of a name, in HTML or SVG."""
    page = seen.page

    assert page.locator("script").count() == 0
    assert page.locator("img").count() == 0
    assert page.locator("[onmouseover], [onerror]").count() == 0
    assert page.locator("h1").inner_text().startswith("<script>alert(1)</script>")
    assert page.locator("svg text", has_text="<script>alert").count() > 0


def test_a_script_would_not_run_even_if_it_were_there(browser, tmp_path):
    """The policy of the page forbids scripts and every request."""
    path = tmp_path / "report.html"
    write_page(sample_page(), path)
    attack = "<script>document.title = 'run'</script><img src='http://127.0.0.1:9/x.png'></body>"
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", attack), encoding="utf-8")

    with looked_at(browser, path) as seen:
        assert seen.page.title() != "run"
        assert sum("Content Security Policy" in problem for problem in seen.problems) >= 2


def test_the_numbers_unfold_by_keyboard(browser, report):
    with looked_at(browser, report) as seen:
        first = seen.page.locator("summary").first
        first.focus()
        seen.page.keyboard.press("Enter")

        assert seen.page.locator("details").first.get_attribute("open") is not None
        assert seen.page.locator("details table").first.is_visible()


def plot_of(page: Page, title: str) -> Locator:
    """The drawing of this title, with its values."""
    return page.locator(".plot", has=page.get_by_role("radiogroup", name=f"Values of: {title}"))


SHOWN = "found => found.filter((span) => +getComputedStyle(span).opacity).map((s) => s.innerText)"


def test_values_are_shown_where_a_drawing_is_pointed_at(browser, report):
    """And nothing else is: the page has no script."""
    with looked_at(browser, report) as seen:
        plot = plot_of(seen.page, "Bars")
        before = plot.locator("span").evaluate_all(SHOWN)
        plot.locator("input").nth(3).hover()

        expected = plot.locator("span").nth(3).inner_text()
        assert (before, plot.locator("span").evaluate_all(SHOWN)) == ([], [expected])
        assert ": AUC " in expected
        assert plot.locator("span").nth(3).is_visible()


def test_a_value_hides_nothing_of_the_caption(desktop):
    """Where it takes two lines, as in a window of a desktop."""
    figure = desktop.locator("figure", has=plot_of(desktop, "Predicted and observed")).first
    lines = [span.bounding_box() for span in figure.locator(".plot span").all()]
    lowest = max(box["y"] + box["height"] for box in lines if box)
    caption = figure.locator("figcaption").bounding_box()

    assert caption is not None
    assert max(box["height"] for box in lines if box) > 30
    assert lowest <= caption["y"]


def test_values_are_reached_by_keyboard_with_one_stop_for_a_drawing(browser, report):
    with looked_at(browser, report) as seen:
        plot = plot_of(seen.page, "Bars")
        texts = plot.locator("span").all_inner_texts()
        plot.locator("input").nth(2).focus()
        seen.page.keyboard.press("ArrowRight")

        assert plot.locator("span").evaluate_all(SHOWN) == [texts[3]]
        assert plot.get_by_role("radio").nth(3).is_checked()
        assert len(texts) > 5

        seen.page.keyboard.press("Tab")
        assert plot.locator("input:focus").count() == 0


def test_values_are_reached_by_touch(browser, report):
    with browser.new_context(has_touch=True, viewport={"width": PHONE, "height": 900}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        plot = plot_of(page, "Bars")
        plot.locator("input").nth(5).tap()

        assert plot.locator("span").evaluate_all(SHOWN) == [
            plot.locator("span").nth(5).inner_text()
        ]


def test_the_focus_is_visible(browser, report):
    with looked_at(browser, report) as seen:
        seen.page.keyboard.press("Tab")

        assert (
            seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        )


def test_it_has_landmarks_and_a_language(desktop):
    assert desktop.locator("html").get_attribute("lang") == "en"
    for landmark in ("banner", "main", "contentinfo", "navigation"):
        assert desktop.get_by_role(landmark).count() == 1, landmark


def test_each_drawing_is_named(desktop):
    drawings = desktop.locator(".drawing svg")
    names = [drawing.get_attribute("aria-label") for drawing in drawings.all()]

    assert len(names) == 9
    assert all(names)
    assert desktop.get_by_role("img").count() == len(names)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_printed_on_white(browser, report, scheme):
    """Paper is white, whatever the screen is."""
    with looked_at(browser, report, scheme=scheme) as seen:
        seen.page.emulate_media(media="print")

        assert [found for found in seen.texts() if found["contrast"] < LEAST_CONTRAST] == []
        assert seen.page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 36, 48)"
        assert seen.page.evaluate(PAPER) == ["rgb(255, 255, 255)", "light"]
