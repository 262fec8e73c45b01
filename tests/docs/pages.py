"""The project's Markdown pages, and what the tests read from them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN_BY_HAND = [page for page in PAGES if "do not edit" not in page.read_text(encoding="utf-8")]

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(name: str) -> str:
    """The text of the page, by its path from the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def code_blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of the language, in order."""
    return [found["code"] for found in _FENCE.finditer(text) if found["language"] == language]


def without_code(text: str) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", text)


def table_below(text: str, header: str) -> list[list[str]]:
    """The cells of the rows of the one table that begins with the header."""
    lines = text.splitlines()
    assert lines.count(header) == 1, f"there is no single table with the header {header}"
    rows = []
    for line in lines[lines.index(header) + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows
