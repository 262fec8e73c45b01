"""Notebooks run from top to bottom and print what they show; so does the code of their page."""

import re

import pytest

from tests.docs.notebooks import NOTEBOOKS, code_cells, printed, read, stored
from tests.docs.pages import code_blocks, text_of


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_cell_prints_what_it_shows(path):
    """`python -m tests.docs.notebooks` stores it anew."""
    cells = code_cells(read(path))

    found = printed(["".join(cell["source"]) for cell in cells])

    assert len(cells) > 3
    assert found == [stored(cell) for cell in cells]
    assert {cell["execution_count"] for cell in cells} == {None}


def test_the_code_of_the_page_prints_what_it_says():
    """What a line prints is in a comment behind it."""
    blocks = code_blocks(text_of("docs/notebooks.md"), "python")

    found = printed(blocks)

    shown = [line for block in blocks for line in re.findall(r"print\(.*\)  # (.*)", block)]
    assert "".join(found).splitlines() == shown != []
