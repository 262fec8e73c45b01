"""Results of parts, kept as docs/benchmarks/<part>.json so that each can be measured alone.

A result names the code that was measured by a digest of the sources before and after the run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.figures import Cell, Figure, Table

FOLDER = ROOT / "docs" / "benchmarks"
DIGITS = 6
"""Significant digits that are kept: more are noise."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Digests of the code before and after a measurement."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a part, the ratios made of them, and where and when they were measured."""

    part: str
    title: str
    about: str
    command: str
    rows: Table
    seconds: float
    other_cores: float
    measured_at: datetime
    machine: str
    versions: Mapping[str, str]
    sources: Sources
    ratios: Table = field(default_factory=dict)


def save(result: Result, folder: Path = FOLDER) -> None:
    """Write the file of a part, in place of the one before."""
    folder.mkdir(exist_ok=True)
    (folder / f"{result.part}.json").write_text(json.dumps(_plain(result), indent=1) + "\n")


def saved(folder: Path = FOLDER) -> dict[str, Result]:
    """All results there are, by part."""
    files = sorted(folder.glob("*.json"))
    return {path.stem: _result(json.loads(path.read_text())) for path in files}


def plain_rows(table: Table) -> dict[str, dict[str, Any]]:
    """`{row: {column: number, text or {"median", "low", "high"}}}`."""
    return {
        name: {
            column: cell._asdict() if isinstance(cell, Figure) else cell
            for column, cell in row.items()
        }
        for name, row in table.items()
    }


def _plain(result: Result) -> dict[str, Any]:
    return {
        "part": result.part,
        "title": result.title,
        "command": result.command,
        "measured_at": f"{result.measured_at.astimezone(UTC):%Y-%m-%dT%H:%MZ}",
        "seconds": _rounded(result.seconds),
        "other_cores": _rounded(result.other_cores),
        "machine": result.machine,
        "versions": dict(result.versions),
        "sources": {"before": result.sources.before, "after": result.sources.after},
        "about": result.about,
        "rows": _rounded(plain_rows(result.rows)),
        "ratios": _rounded(plain_rows(result.ratios)),
    }


def _result(plain: dict[str, Any]) -> Result:
    at = datetime.fromisoformat(plain["measured_at"])
    changed = {
        "measured_at": at,
        "sources": Sources(**plain["sources"]),
        "rows": _table(plain["rows"]),
        "ratios": _table(plain["ratios"]),
    }
    return Result(**{**plain, **changed})


def _table(plain: Mapping[str, Mapping[str, Any]]) -> Table:
    return {
        name: {column: _cell(cell) for column, cell in row.items()} for name, row in plain.items()
    }


def _cell(plain: Any) -> Cell:
    return Figure(**plain) if isinstance(plain, dict) else plain


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


FOLDERS = ("app", "benchmarks", "calibrators", "clients", "evaluation", "pccem")
SUFFIXES = {".py", ".lua"}


def source_digest() -> str:
    """The first 12 hex digits of the SHA-256 of the names and texts of all sources."""
    digest = sha256()
    for path in sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*")):
        if path.suffix in SUFFIXES:
            content = sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(ROOT).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:12]
