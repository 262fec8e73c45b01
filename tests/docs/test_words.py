"""The words of docs/glossary.md: those it rules out stand in no name, and on no page."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Final, NamedTuple

from tests.docs.pages import PAGES, ROOT, table_below, without_code

CODE = ("app", "calibrators", "clients", "evaluation", "pccem", "research", "benchmarks")
PRODUCT = CODE[:5]
GLOSSARY = ROOT / "docs/glossary.md"
HEADER = "| not | use instead | where |"
KEPT: Final = {
    ("app/cli", "judged"): "the option `--judged`",
    ("app/cli", "contenders"): "the option `--contenders`",
    ("research/leaderboard", "judged"): "the option `--judged`",
    ("research/leaderboard", "contenders"): "the option `--contenders`",
}
"""Names that stay, by folder, and why: commands, options and keys of JSON that users rely on."""

STORED: Final = {("storage", "judged")}
"""Parts of keys of Redis that stay, by folder."""

_CODE_SPAN = re.compile(r"`[^`]*`")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Rule(NamedTuple):
    """A word that is not used, what to use instead, and where this holds."""

    word: str
    instead: str
    where: str


class Named(NamedTuple):
    """A name and its place: a file, and the line in it."""

    name: str
    path: Path
    line: int


def rules() -> list[Rule]:
    """The rows of the glossary's table, a rule for each word."""
    rows = table_below(GLOSSARY.read_text(encoding="utf-8"), HEADER)
    return [Rule(word, cells[1], cells[2]) for cells in rows for word in _spans(cells[0])]


def _spans(cell: str) -> list[str]:
    return [span.strip("`") for span in _CODE_SPAN.findall(cell)]


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All that a source is made of."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def names() -> Iterator[Named]:
    """Of files and folders, classes, functions and parameters."""
    for folder in (*CODE, "docs"):
        for path in sorted((ROOT / folder).rglob("*")):
            relative = path.relative_to(ROOT)
            yield Named(path.stem, relative, 0)
            if path.suffix == ".py":
                yield from names_in(path, relative)


def names_in(source: Path, path: Path) -> Iterator[Named]:
    """Of classes, functions and parameters."""
    for node in nodes_of(source):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Named(node.name, path, node.lineno)
        elif isinstance(node, ast.arg):
            yield Named(node.arg, path, node.lineno)


def breaks(name: str, word: str) -> bool:
    """Whether the word is one of the name's, or, in CamelCase, the name of the class."""
    if word != word.lower():
        return name.lstrip("_") == word
    return f"_{word}_" in _spelled(name)


@cache
def _spelled(name: str) -> str:
    return f"_{'_'.join(part.lower() for part in _WORD.findall(name))}_"


def is_kept(named: Named) -> bool:
    return any(named.name == name and str(named.path).startswith(f) for f, name in KEPT)


def test_rules_find_what_they_name():
    """Whole words, however the name is written."""
    assert breaks("JudgedHours", "judged")
    assert breaks("_hang_ups", "hang_ups")
    assert breaks("_Place", "Place")
    assert not breaks("placement", "Place")
    assert not breaks("contested", "contest")


def test_names_are_of_the_glossary():
    """A name says what the field says."""
    for_names = [rule for rule in rules() if "names" in rule.where]
    places = defaultdict(list)
    for named in names():
        places[named.name].append(named)
    wrong = [
        f"{named.path}:{named.line}: {name}: not {rule.word}, but {rule.instead}"
        for name in places
        for rule in for_names
        if breaks(name, rule.word)
        for named in places[name]
        if not is_kept(named)
    ]

    assert wrong == [], "\n" + "\n".join(wrong)


def test_pages_are_of_the_glossary():
    """Prose, without code: commands, options and what they print keep their words."""
    for_pages = [rule for rule in rules() if "pages" in rule.where]
    wrong = [
        f"{page.relative_to(ROOT)}: ...{found}...: not {rule.word}, but {rule.instead}"
        for page in [*PAGES, ROOT / "clients/python/README.md"]
        for prose in [_prose(page.read_text(encoding="utf-8"))]
        for rule in for_pages
        for found in _around(prose, rule.word)
    ]

    assert wrong == [], "\n" + "\n".join(wrong)


def test_messages_are_of_the_glossary():
    """What commands, reports and errors say, and docstrings, which are the help of commands."""
    for_messages = [rule for rule in rules() if "messages" in rule.where]
    wrong = [
        f"{path}:{line}: ...{found}...: not {rule.word}, but {rule.instead}"
        for path, line, text in messages()
        for prose in [_prose(text)]
        for rule in for_messages
        for found in _around(prose, rule.word)
        if (path.parts[1], rule.word) not in STORED
    ]

    assert len(for_messages) > 10
    assert wrong == [], "\n" + "\n".join(wrong)


def messages() -> Iterator[tuple[Path, int, str]]:
    """Every text of the product: its file, its line, and itself."""
    for path in (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))):
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.relative_to(ROOT), node.lineno, node.value


def _prose(text: str) -> str:
    return " ".join(_CODE_SPAN.sub("", without_code(text)).split())


def _around(prose: str, word: str) -> list[str]:
    if word.lower() not in _lower(prose):
        return []
    spelled = re.compile(rf"(?<![\w/-]){re.escape(word)}(?![\w-])", re.IGNORECASE)
    found = (match.span() for match in spelled.finditer(prose))
    return [prose[max(0, begin - 30) : end + 20] for begin, end in found]


_lower = cache(str.lower)
"""A text is asked for every word of the glossary."""


def test_pages_name_files_that_are_there():
    """A path or a module in code leads to a file, or to a name in it."""
    wrong = [
        f"{page.relative_to(ROOT)}: {named}: no such file"
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for span in _CODE_SPAN.findall(without_code(page.read_text(encoding="utf-8")))
        for named in _paths_in(span)
        if not _leads_somewhere(named)
    ]

    assert wrong == [], "\n" + "\n".join(wrong)


def test_packages_name_files_that_are_there():
    """The docstring of a package says what is where."""
    wrong = [
        f"{package.relative_to(ROOT)}: {name}: no such file"
        for package in sorted(ROOT.glob("*/**/__init__.py"))
        if package.relative_to(ROOT).parts[0] in CODE
        for name in re.findall(r"`(\w+(?:\.py|/))`", package.read_text(encoding="utf-8"))
        if not (package.parent / name).exists()
    ]

    assert wrong == [], "\n" + "\n".join(wrong)


def _paths_in(code: str) -> list[str]:
    """What begins with a folder of code: `app/cli/main.py`, `app.storage.keys`."""
    packages = "|".join((*CODE, "docs", "tests", "sirocco_client"))
    return re.findall(rf"(?<![\w/.-])(?:{packages})[/.][\w/.-]*\w", code)


def _leads_somewhere(named: str) -> bool:
    if "/" in named:
        return (ROOT / named).exists()
    try:
        resolve_name(named)
    except (ImportError, AttributeError):
        return False
    return True
