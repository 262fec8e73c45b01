"""Runs the docs' notebooks without a kernel: `python -m tests.docs.notebooks` stores what they
print."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    """The notebook's JSON."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that run, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(sources: list[str]) -> list[str]:
    """What each of these pieces of code prints, run one after the other in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for source in sources:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(source, names)
        found.append(output.getvalue())
    return found


def stored(cell: dict[str, Any]) -> str:
    """What the cell keeps of its last run."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def _store(path: Path) -> None:
    notebook = read(path)
    cells = code_cells(notebook)
    for cell, text in zip(cells, printed(["".join(c["source"]) for c in cells]), strict=True):
        lines = text.splitlines(keepends=True)
        stream = {"name": "stdout", "output_type": "stream", "text": lines}
        cell |= {"execution_count": None, "outputs": [stream] if lines else []}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in NOTEBOOKS:
        _store(each)
