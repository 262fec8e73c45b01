"""docs/benchmarks.md, from the results that are kept: `python -m benchmarks.report.page`."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.figures import shown
from benchmarks.parts import PARTS
from benchmarks.report.charts import drawings_of, write_charts
from benchmarks.report.results import Result, saved
from benchmarks.report.targets import TARGETS, Tables, Target

DOCS = ROOT / "docs"
IDLE_CORES = 0.1
"""Above this, others were at work on the machine, and the page says so."""


def write_page(docs: Path = DOCS) -> None:
    """Write the page and its charts from the results in `docs`."""
    found = saved(docs / "benchmarks")
    results = [found[name] for name in PARTS if name in found]
    lines = page(results, other_machines(docs / "benchmarks"))
    (docs / "benchmarks.md").write_text("\n".join(lines) + "\n")
    write_charts(results, docs / "images")


def other_machines(folder: Path) -> list[dict[str, Any]]:
    """What other kinds of machines gave: `machine`, `about`, and `found`, the value of targets by
    their names."""
    return [json.loads(path.read_text()) for path in sorted((folder / "machines").glob("*.json"))]


def page(results: Sequence[Result], others: Sequence[dict[str, Any]] = ()) -> Iterator[str]:
    """The lines of the page."""
    yield "# Benchmarks\n"
    yield "What sirocco costs and how fast it is, beside what one would use instead: calibration"
    yield "over HTTP, ingest, refits, metrics, and half an hour of mixed load. For those who plan"
    yield "capacity.\n"
    yield "Written by `python -m benchmarks --write`; do not edit. All figures, with quartiles,"
    yield "are in `docs/benchmarks/`, one JSON file a part; `python -m benchmarks PART` measures"
    yield "one and prints its table.\n"
    yield f"* Machine: {_all_of([result.machine for result in results])}"
    yield f"* Versions: {', '.join(_versions(results))}"
    yield from (f"* {other['machine']}: {other['about']}" for other in others)
    yield "* Figures are medians of rounds, in which the ways that are compared took turns."
    yield "  Times are CPU time unless they say wall. Other guests of a virtual machine's host"
    yield "  slow it down for milliseconds to minutes: of several runs of a part that one is kept"
    yield "  whose controls, echo and numpy, cost least; disturbed rounds are repeated"
    yield "  (benchmarks/noise_gate.py).\n"
    yield "## Targets\n"
    yield from _target_lines(tables_of(results), others)
    for result in results:
        yield from _part_lines(result)


def tables_of(results: Sequence[Result]) -> Tables:
    """Rows by part, and ratios by `<part> ratios`."""
    rows = {result.part: result.rows for result in results}
    return rows | {f"{result.part} ratios": result.ratios for result in results}


def _versions(results: Sequence[Result]) -> Iterator[str]:
    for name in dict.fromkeys(name for result in results for name in result.versions):
        found = [result.versions[name] for result in results if name in result.versions]
        yield f"{name} {_all_of(found)}"


def _all_of(texts: Sequence[str]) -> str:
    """Parts may have been measured on different machines, with different versions."""
    return " or ".join(dict.fromkeys(texts))


def _target_lines(tables: Tables, others: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| target | limit | measured | " + "".join(f"{one['machine']} | " for one in others) + "|"
    yield "|---|---:|---:|" + "---:|" * len(others) + "---|"
    yield from (_target_line(target, tables, others) for target in TARGETS)
    yield ""


def _target_line(target: Target, tables: Tables, others: Sequence[dict[str, Any]]) -> str:
    bound = "at least" if target.at_least else "at most"
    limit = f"{bound} {_limit(target.limit)} {target.unit}"
    found = [other["found"].get(target.what) for other in others]
    try:
        values = [target.found(tables), *found]
    except KeyError:
        values = [None, *found]
    cells = ["-" if value is None else f"{shown(value)} {target.unit}" for value in values]
    known = [target.is_met(value) for value in values if value is not None]
    verdict = ("met" if all(known) else "**missed**") if known else "not measured"
    return f"| {target.what} | {limit} | {' | '.join(cells)} | {verdict} |"


def _limit(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _part_lines(result: Result) -> Iterator[str]:
    yield f"## {result.title}\n"
    yield result.about.partition("\n\n")[0] + "\n"
    yield f"{_when(result)} [Figures](benchmarks/{result.part}.json)."
    for drawing, _ in islice(drawings_of(result), 1):
        yield f"\n![{drawing.title}](images/{drawing.file})"
    yield ""


def _when(result: Result) -> str:
    return (
        f"`{result.command}` on {result.measured_at:%Y-%m-%d at %H:%M} UTC;"
        f" it took {result.seconds:,.0f} s. {_code(result)} {_company(result)}"
    )


def _code(result: Result) -> str:
    before, after = result.sources.before, result.sources.after
    if before == after:
        return f"Code: sources {before}."
    return f"**The code changed during the run**, from sources {before} to {after}."


def _company(result: Result) -> str:
    if result.other_cores <= IDLE_CORES:
        return "No other work ran on the machine."
    return f"**The machine was busy with other work** ({result.other_cores:.1f} cores)."


if __name__ == "__main__":
    write_page()
