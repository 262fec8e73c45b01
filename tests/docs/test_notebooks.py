"""Notebooks run from top to bottom, without a kernel, and print what they show; so does the code of
their page. `python -m tests.docs.test_notebooks` stores anew what notebooks print."""

import contextlib
import io
import json
import re

import pytest

from tests.docs.pages import ROOT, code_blocks, text_of

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def printed(sources):
    """What each of these pieces of code prints, run one after the other in one namespace."""
    names, found = {"__name__": "__main__"}, []
    for source in sources:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(source, names)
        found.append(output.getvalue())
    return found


def run(notebook):
    """The cells of code, and what each prints."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return cells, printed(["".join(cell["source"]) for cell in cells])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_cell_prints_what_it_shows(path):
    cells, found = run(json.loads(path.read_text(encoding="utf-8")))

    assert len(cells) > 3
    stored = (["".join(output["text"]) for output in cell["outputs"]] for cell in cells)
    assert found == ["".join(texts) for texts in stored]


def test_the_code_of_the_page_prints_what_it_says():
    """What a line prints is in a comment behind it."""
    blocks = code_blocks(text_of("docs/notebooks.md"), "python")

    shown = [line for block in blocks for line in re.findall(r"print\(.*\)  # (.*)", block)]
    assert "".join(printed(blocks)).splitlines() == shown != []


def _store(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell, text in zip(*run(notebook), strict=True):
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(True)}
        cell |= {"execution_count": None, "outputs": [stream] if text else []}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in NOTEBOOKS:
        _store(each)
