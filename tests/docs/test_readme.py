"""The first page must hold what it promises."""

import re
from typing import Any

import pytest

from tests.docs.pages import ROOT, code_blocks, text_of

README = text_of("README.md")
_SHOWN_URL = "http://127.0.0.1:8080"
_EXAMPLE_LINES = 12


def test_client_example_prints_what_it_shows(
    service_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever pastes the example into a shell beside a fresh service sees the printed lines."""
    example = code_blocks(README, "python")[0]
    shown = code_blocks(README, "text")[0]
    assert _SHOWN_URL in example

    names: dict[str, Any] = {}
    exec(compile(example.replace(_SHOWN_URL, service_url), "README.md", "exec"), names)
    names["sirocco"].close()

    assert capsys.readouterr().out == shown


def test_client_example_stays_short() -> None:
    """Ten lines or so: a reader decides on them."""
    lines = [line for line in code_blocks(README, "python")[0].splitlines() if line.strip()]
    assert len(lines) <= _EXAMPLE_LINES


def test_two_commands_are_targets_of_make() -> None:
    """`make run` and `make test` are named, and exist."""
    targets = re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE)

    named = re.findall(r"^make (\w+)", README, re.MULTILINE)

    assert {"run", "test"} <= set(named) <= set(targets)


def test_picture_is_small() -> None:
    """The picture above the fold must not weigh more than the page's patience."""
    assert (ROOT / "docs/images/reliability.png").stat().st_size < 150_000
