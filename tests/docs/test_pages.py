"""Rules that hold for every page."""

import re
import tempfile
from pathlib import Path
from xml.etree import ElementTree

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


def _anchors(page: Path) -> set[str]:
    titles = (found["title"] for found in _HEADING.finditer(without_code(page.read_text())))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    """A relative link names a file that exists and a heading that stands in it."""
    for page in PAGES:
        for found in _LINK.finditer(without_code(page.read_text(encoding="utf-8"))):
            assert found["target"].startswith(("http://", "https://")) or _leads(
                page, found["target"]
            ), (page, found["target"])


def _leads(page: Path, target: str) -> bool:
    """Whether the relative link stands on a page from which there is such a file and heading."""
    name, _, anchor = target.partition("#")
    other = (page.parent / name).resolve() if name else page
    return other.exists() and (not anchor or anchor in _anchors(other))


def test_no_machine_and_no_registry():
    """Pages are for strangers: no path of the machine they were written on, no package host."""
    owned = (ROOT, Path.home(), Path(tempfile.gettempdir()))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")

        assert not _MACHINE.search(text), page
        assert not _REGISTRY.search(text), page
        assert not any(f"{own}/" in text for own in owned), page


def test_a_page_begins_with_what_it_is_for():
    """A title, then a paragraph: no picture, list, table or heading."""
    begun = re.compile(r"# .+\n\n(?:[^#|!*>\n-].*\n)*[^#|!*>\n-].*\.\n\n")

    assert [page for page in PAGES if not begun.match(page.read_text(encoding="utf-8"))] == []


def test_lines_are_short():
    """Prose breaks at 100 characters; tables, code and pages written by a command need not."""
    long = [
        (page, line)
        for page in WRITTEN_BY_HAND
        for line in without_code(page.read_text(encoding="utf-8")).splitlines()
        if len(line) > 100 and not line.startswith("|") and not _LINK.search(line)
    ]

    assert long == []


def test_commands_exist():
    """Every `sirocco ...` in code is a command with these options, every benchmark a module."""
    commands = typer.main.get_command(application).commands  # type: ignore[attr-defined]
    options = {
        name: {
            "--help",
            *(
                option
                for one in (command, *getattr(command, "commands", {}).values())
                for parameter in one.params
                for option in parameter.opts
            ),
        }
        for name, command in commands.items()
    }
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        code = "\n".join([*re.findall(r"`([^`\n]+)`", without_code(text)), *code_blocks(text, "")])
        for found in _COMMAND.finditer(code):
            assert found["name"] in commands, (page, found[0])
            assert set(_OPTION.findall(found["rest"])) <= options[found["name"]], (page, found[0])
        for module in _MODULE.findall(text):
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or path.is_dir(), (page, module)


def test_pictures_drawn_by_hand_are_well_formed():
    """An SVG with a slip in it shows nothing at all."""
    for picture in (ROOT / "docs/images").glob("*.svg"):
        assert ElementTree.parse(picture).getroot().get("viewBox")


def test_pictures_are_small():
    """No picture weighs more than a page's patience."""
    for picture in (ROOT / "docs/images").glob("*.png"):
        assert picture.stat().st_size < 150_000, picture


def test_decisions_have_all_four_parts():
    """A record without its alternatives is an announcement."""
    for record in (ROOT / "docs/decisions").glob("*.md"):
        parts = re.findall(r"^## (\w+)", record.read_text(encoding="utf-8"), re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences", "Alternatives"], record.name
