"""Writes docs/reproduction.md from the runs of one command."""

import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Final

from app.errors import FAILED, CommandError
from research.reproduction import Check, Conclusion
from research.reproduction.tables import ARITHMETIC, COUNTS, Finished, Size, counts_of, verdict_text

_PACKAGES: Final = ("numpy", "scipy", "lightgbm")
_WIDTH: Final = 98
_PURPOSE: Final = (
    "Does this project compute what the papers that it is built on say? This page runs the tables"
    " of the five papers again and shows the printed numbers beside ours."
)
_INTRODUCTION: Final = (
    "Every table of the papers that needs no private data, run again. An exact number has to be the"
    " printed one, rounded; a number that hangs on chance has to lie, as the printed one, where"
    " nearly all random draws do. **paper errs** means that the printed digit cannot be right, and"
    " an argument that does not use the code under test says what is; **differs** that neither"
    " holds, which fails the command; shown numbers are not evaluated. Checks marked as arithmetic"
    " hold printed numbers against each other and use none of the product's code: they say"
    " something of the paper, nothing of us, and are counted apart."
)

_PAPERS: Final = (
    "000: Fan, Si, Song and Zhang, Calibration-then-Calculation",
    "001: Yi, Chen, Li, Sett and Yan, Predictive Model Performance, KDD 2013",
    "002: Liu and Yin, CPM-sensitive AUC for CTR prediction",
    "003: Towards Accurate Deep Learning Model Selection, the later version of 000",
    "004: Deng, Wang, Tan, Xu and Gai, Calibrating User Response Predictions in Online Advertising",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a page comes from: the command, its time and the machine."""

    command: str
    at: datetime
    machine: str
    size: Size


def machine() -> str:
    """Cores, Python and the packages that the numbers depend on."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()},"
        f" {packages}"
    )


def check_page(path: Path) -> None:
    """A `CommandError`, before any work is done, when no page can be written at `path`."""
    if path.suffix.lower() != ".md":
        raise CommandError(f"{path}: a page's name ends in .md")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")


def write_page(path: Path, runs: Sequence[Finished], origin: Origin) -> None:
    """Write the page, whole or not at all."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text("\n".join(page_lines(runs, origin)), encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error
    finally:
        unfinished.unlink(missing_ok=True)


def page_lines(runs: Sequence[Finished], origin: Origin) -> Iterator[str]:
    """The lines of the page."""
    size = "quick, with wider bands and fewer checks" if origin.size.quick else "full"
    yield "# Reproduction\n"
    yield _wrapped(_PURPOSE) + "\n"
    yield f"Written by `{origin.command}`"
    yield f"on {origin.at:%Y-%m-%d at %H:%M} UTC; do not edit.\n"
    yield _item(f"Machine: {origin.machine}")
    yield _item(f"Size: {size}; seed {origin.size.seed}") + "\n"
    yield _wrapped(_INTRODUCTION) + "\n"
    yield from map(_item, _PAPERS)
    yield ""
    yield from _summary(runs)
    for run in runs:
        yield from _section(run)


def _summary(runs: Sequence[Finished]) -> Iterator[str]:
    yield "## Summary\n"
    yield (
        "| experiment | "
        + " | ".join(name.replace("_", " ") for name in (*COUNTS, ARITHMETIC))
        + " | took |"
    )
    yield "|---|" + "---:|" * (len(COUNTS) + 2)
    for run in runs:
        link = f"[{run.experiment.name}](#{_anchor(run.reproduction.title)})"
        counts = " | ".join(_count(name, count) for name, count in counts_of(run).items())
        yield f"| {link} | {counts} | {run.seconds:.1f} s |"
    yield ""
    yield "Printed digits that cannot be right:\n"
    errata = [f"{run.experiment.name}: {text}" for run in runs for text in run.reproduction.errata]
    yield from map(_item, errata or ["none among these experiments"])
    yield ""


def _count(name: str, count: int) -> str:
    return f"**{count}**" if count and COUNTS.get(name) is Conclusion.DIFFERS else str(count)


def _section(run: Finished) -> Iterator[str]:
    found = run.reproduction
    yield f"## {found.title}\n"
    yield _wrapped(f"{found.source}. `sirocco reproduce {run.experiment.name}`") + "\n"
    for part, checks in groupby(found.checks, key=lambda check: check.part):
        yield f"| {_cell(part or 'quantity')} | paper | ours | tolerance | |"
        yield "|---|---:|---:|---:|---|"
        yield from map(_row, checks)
        yield ""
    yield from map(_item, found.notes)
    if found.notes:
        yield ""


def _row(check: Check) -> str:
    verdict = verdict_text(check)
    marked = f"**{verdict}**" if check.verdict in _MARKED else verdict
    cells = (check.what, check.paper_shown, check.ours_shown, check.tolerance)
    return f"| {' | '.join(map(_cell, cells))} | {marked} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _item(text: str) -> str:
    return _wrapped(text, "* ", "  ")


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    return fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


_MARKED: Final = (Conclusion.PAPER_ERRS, Conclusion.DIFFERS)
