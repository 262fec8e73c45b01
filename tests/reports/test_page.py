"""The file of a report."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path

import pytest

from app.errors import BAD_INPUT, FAILED, CommandError
from app.reports import page as pages
from app.reports.page import (
    Chart,
    Page,
    Section,
    Table,
    Tile,
    check_report,
    how_made,
    layout,
    numeric_columns,
    write_page,
)
from tests.reports.sample_page import SCRIPT, sample_page

LOW = Chart("low", "", '<svg viewBox="0 0 440 320">')
TALL = Chart("tall", "", '<svg viewBox="0 0 440 700">')
TABLE = Table(["a"], [])
PLAIN = Page("Title", "Subtitle", "Verdict.", [], [])


class Tags(HTMLParser):
    """The tags of a document, and the attributes of each."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def written(folder: Path, page: Page) -> str:
    write_page(page, folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_page_is_the_same_bytes_each_time(tmp_path):
    """And so are its charts: `test_charts.py`."""
    assert written(tmp_path, sample_page()) == written(tmp_path, sample_page())


@pytest.mark.slow
def test_a_page_names_nothing_outside_itself(tmp_path):
    tags = Tags(written(tmp_path, sample_page())).found
    references = {found.get(name) or "#" for _, found in tags for name in ("href", "src")}

    assert all(reference.startswith(("#", "data:")) for reference in references)
    assert not {tag for tag, _ in tags} & {"script", "iframe", "object", "embed", "img", "form"}


def test_the_policy_forbids_everything_but_its_own_style(tmp_path):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', written(tmp_path, PLAIN))

    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")


def test_all_that_is_said_is_there(tmp_path):
    page = Page(
        "Title", "Subtitle", "Verdict.",
        [Tile("PCOC", "1.48", "1 is right", good=False), Tile("AUC", "0.7", good=True)],
        [Section("Section", "One.\n\nTwo.", [Table(["a", "b"], [["x", "1"]], "Table", "Note")])],
        ["Warning."], "Footer",
    )  # fmt: skip
    document = written(tmp_path, page)

    for said in (
        "<h1>Title</h1>", "<p>Verdict.</p>", "<li>Warning.</li>", "<p>One.</p>", "<p>Two.</p>",
        "1.48", "1 is right", "look at this", "✓ good", "<h3>Table</h3>", "Note", "Footer",
        f"sirocco {version('sirocco')}",
    ):  # fmt: skip
        assert said in document


def test_a_bare_page_has_no_empty_boxes(tmp_path):
    document = written(tmp_path, PLAIN)

    for part in ("warnings", "tiles", "contents", "parts"):
        assert f'class="{part}"' not in document


def test_a_long_table_is_folded_and_a_short_one_is_not(tmp_path):
    def details(rows: int) -> int:
        table = Table(["name"], [["x"]] * rows, "Table")
        page = replace(PLAIN, sections=[Section("Section", parts=[table])])
        return written(tmp_path, page).count("<details>")

    assert (details(3), details(40)) == (0, 1)


def test_a_page_stays_small_whatever_a_log_holds(tmp_path):
    """Rows beyond a thousand are counted, not written."""
    table = Table(["name", "n"], [[f"name {row}", "1"] for row in range(9_000)], "Table")
    document = written(tmp_path, replace(PLAIN, sections=[Section("Section", parts=[table])]))

    assert "name 999" in document
    assert "name 1000<" not in document
    assert "8,000 more rows are left out" in document
    assert "Table: 9,000 rows" in document
    assert len(document) < 200_000


def test_markup_of_a_log_is_escaped_everywhere(tmp_path):
    document = written(tmp_path, sample_page())

    assert SCRIPT not in document
    assert not any("onmouseover" in found for _, found in Tags(document).found)


def test_characters_that_no_document_may_hold_are_replaced(tmp_path):
    document = written(tmp_path, replace(PLAIN, title="a\x00b\ud800c\u202ed"))

    assert "<h1>a\ufffdb\ufffdc\ufffdd</h1>" in document


def test_the_file_is_replaced_whole(tmp_path):
    """And nothing else stays in the folder."""
    (tmp_path / "report.html").write_text("old", encoding="utf-8")

    assert "Verdict." in written(tmp_path, PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr("pathlib.Path.replace", refuse)

    with pytest.raises(CommandError, match="No space left") as error:
        write_page(PLAIN, path)
    assert error.value.exit_code == FAILED
    assert path.read_text(encoding="utf-8") == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("name", ["report.png", "report", "no-folder/report.html", "folder.html"])
def test_a_bad_name_is_refused_before_any_work(tmp_path, name):
    (tmp_path / "folder.html").mkdir()

    with pytest.raises(CommandError) as error:
        check_report(tmp_path / name)
    assert error.value.exit_code == BAD_INPUT
    assert name in str(error.value)


def test_a_good_name_is_accepted(tmp_path):
    check_report(tmp_path / "report.HTML")


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "find_spec", lambda name: None if name == "jinja2" else object())

    with pytest.raises(CommandError, match=r"jinja2.*sirocco\[pictures\]"):
        check_report(tmp_path / "report.html")


def test_the_footer_says_how_and_when():
    at = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)

    assert how_made("sirocco evaluate log.csv", at) == (
        "Made by: sirocco evaluate log.csv\n2026-03-01 12:30 UTC"
    )


@pytest.mark.parametrize(
    ("cell", "numeric"),
    [
        ("1,234.5", True),
        ("-3 %", True),
        ("+1.2 [0.9, 1.5]", True),
        ("2 (1 to 3)", True),
        ("1e-5", True),
        ("12 ms", True),
        ("2026-03-01 12:00", False),
        ("campaign 3", False),
        ("", False),
        ("-", True),
    ],
)
def test_columns_of_numbers_are_aligned_on_the_right(cell, numeric):
    assert numeric_columns(Table(["x"], [[cell], [cell]])) == [numeric]
    assert numeric_columns(Table(["x"], [[cell], ["-"]])) == [numeric or not cell]


@pytest.mark.parametrize(
    ("parts", "classes"),
    [
        ([], []),
        ([LOW], ["alone"]),
        ([TALL], ["alone"]),
        ([LOW, LOW], ["", ""]),
        ([LOW, LOW, LOW], ["", "", "alone"]),
        ([LOW, TALL, LOW], ["", "tall", ""]),
        ([LOW, TALL], ["", ""]),
        ([TALL, TALL], ["tall", "tall"]),
        ([TALL, LOW, LOW, LOW], ["tall", "", "", "alone"]),
        ([LOW, TABLE, LOW, LOW], ["alone", "wide", "", ""]),
    ],
)
def test_charts_are_paired(parts, classes):
    """No half of a wide screen stays empty beside a chart."""
    assert layout(parts) == classes
