"""Whoever pastes the client's README beside a fresh service sees what it shows."""

from itertools import zip_longest
from typing import Any

from tests.docs.pages import code_blocks, text_of

README = text_of("clients/python/README.md")
_SHOWN_URL = "http://127.0.0.1:8080"


def test_every_example_prints_what_it_shows(service, capsys):
    """One after the other, each knowing the names of those before it."""
    names: dict[str, Any] = {}
    # A busy machine may need longer than bidders wait.
    examples = code_blocks(README.replace("timeout=0.5", "timeout=20.0"), "python")
    for example, shown in zip_longest(examples, code_blocks(README, "text")):
        exec(compile(example.replace(_SHOWN_URL, service.url), "README.md", "exec"), names)

        assert capsys.readouterr().out == shown
    names["edge"].close()
    names["sirocco"].close()


def test_lines_are_short():
    """As on the other pages; tables need not be."""
    long = [line for line in README.splitlines() if len(line) > 100 and not line.startswith("|")]

    assert long == []
