"""Rules that hold for every page."""

import re
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer

from app.cli.main import application
from tests.docs.pages import PAGES, ROOT, WRITTEN_BY_HAND, code_blocks, without_code

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_COMMAND = re.compile(r"\bsirocco (?P<name>[a-z]+)(?P<rest>[^`\n]*)")
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
_MODULE = re.compile(r"python -m (?P<module>benchmarks[\w.]*)")
_MACHINE = re.compile(r"(?<![\w.])/(home|Users|root|tmp|mnt|opt|work)/")
_REGISTRY = re.compile(
    r"pypi\.|pythonhosted|artifactory|index-url|registry\.(?!py\b)", re.IGNORECASE
)

by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def _anchors(page: Path) -> set[str]:
    titles = (found["title"] for found in _HEADING.finditer(without_code(page.read_text())))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@by_name
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists and a heading that stands in it."""
    for found in _LINK.finditer(without_code(page.read_text(encoding="utf-8"))):
        target, _, anchor = found["target"].partition("#")
        if target.startswith(("http://", "https://")):
            continue
        other = (page.parent / target).resolve() if target else page

        assert other.exists(), found["target"]
        assert not anchor or anchor in _anchors(other), found["target"]


@by_name
def test_no_machine_and_no_registry(page: Path) -> None:
    """Pages are for strangers: no path of the machine they were written on, no package host."""
    text = page.read_text(encoding="utf-8")

    assert not _MACHINE.search(text)
    assert not _REGISTRY.search(text)
    for own in (ROOT, Path.home(), Path(tempfile.gettempdir())):
        assert f"{own}/" not in text


@pytest.mark.parametrize("page", WRITTEN_BY_HAND, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path) -> None:
    """Prose breaks at 100 characters; tables, code and pages written by a command need not."""
    long = [
        line
        for line in without_code(page.read_text(encoding="utf-8")).splitlines()
        if len(line) > 100 and not line.startswith("|") and not _LINK.search(line)
    ]

    assert long == []


@by_name
def test_commands_exist(page: Path) -> None:
    """Every `sirocco ...` in code is a command with these options, every benchmark a module."""
    text = page.read_text(encoding="utf-8")
    commands = typer.main.get_command(application).commands  # type: ignore[attr-defined]
    code = "\n".join([*re.findall(r"`([^`\n]+)`", without_code(text)), *code_blocks(text, "")])
    for found in _COMMAND.finditer(code):
        assert found["name"] in commands, found[0]
        known = {"--help", *(opt for p in commands[found["name"]].params for opt in p.opts)}
        assert set(_OPTION.findall(found["rest"])) <= known, found[0]
    for module in _MODULE.findall(text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or path.is_dir(), module


def test_pictures_drawn_by_hand_are_well_formed() -> None:
    """An SVG with a slip in it shows nothing at all."""
    for picture in (ROOT / "docs/images").glob("*.svg"):
        assert ElementTree.parse(picture).getroot().get("viewBox")


@pytest.mark.parametrize(
    "picture", sorted((ROOT / "docs/images").glob("*.png")), ids=lambda p: p.name
)
def test_pictures_are_small(picture: Path) -> None:
    """No picture weighs more than a page's patience."""
    assert picture.stat().st_size < 150_000


def test_decisions_have_all_four_parts() -> None:
    """A record without its alternatives is an announcement."""
    for record in (ROOT / "docs/decisions").glob("*.md"):
        parts = re.findall(r"^## (\w+)", record.read_text(encoding="utf-8"), re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences", "Alternatives"], record.name
