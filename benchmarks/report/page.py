"""docs/benchmarks.md, from the results that are kept: `python -m benchmarks.report.page`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.figures import Table, shown
from benchmarks.parts import PARTS
from benchmarks.report.charts import drawings_of, write_charts
from benchmarks.report.printing import columns_of
from benchmarks.report.results import Result, saved
from benchmarks.report.targets import TARGETS, Tables, Target

DOCS = ROOT / "docs"
IDLE_CORES = 0.1
"""Above this, others were at work on the machine, and the page says so."""


def write_page(docs: Path = DOCS) -> None:
    """Write the page and its charts from the results in `docs`."""
    found = saved(docs / "benchmarks")
    results = [found[name] for name in PARTS if name in found]
    (docs / "benchmarks.md").write_text("\n".join(page(results)) + "\n")
    write_charts(results, docs / "images")


def page(results: Sequence[Result]) -> Iterator[str]:
    """The lines of the page."""
    yield "# Benchmarks\n"
    yield "What sirocco costs and how fast it is, beside what one would use instead: calibration"
    yield "over HTTP, ingest, refits, metrics, and half an hour of mixed load.\n"
    yield "Written by `python -m benchmarks --write`; do not edit. One part is measured anew by its"
    yield "own command with `--write`. The figures are kept beside this page, as JSON.\n"
    yield f"* Machine: {_all_of([result.machine for result in results])}"
    yield f"* Versions: {', '.join(_versions(results))}"
    yield "* Cells are medians of rounds, with their quartiles in brackets. The ways of one table"
    yield "  took turns in one run. Times are CPU time unless they say wall."
    yield "* Other guests of a virtual machine's host slow it down by half and more, for"
    yield "  milliseconds to minutes; its own load does not show it, `work` and `scheduling stall`"
    yield "  of the soak do. Of several runs of a part that one is kept whose controls, echo and"
    yield "  numpy, cost least. Look-up, calibration, fit, encodings, client and post-click model"
    yield "  repeat rounds during which that happened, within a limit of time"
    yield "  (benchmarks/noise_gate.py), since 2026-11-22 19:12 UTC; figures from before have none"
    yield "  repeated.\n"
    yield "## Targets\n"
    yield from _target_lines(tables_of(results))
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


def _target_lines(tables: Tables) -> Iterator[str]:
    yield "| target | limit | measured | |"
    yield "|---|---:|---:|---|"
    yield from (_target_line(target, tables) for target in TARGETS)
    yield ""


def _target_line(target: Target, tables: Tables) -> str:
    bound = "at least" if target.at_least else "at most"
    limit = f"{bound} {_limit(target.limit)} {target.unit}"
    try:
        value = target.found(tables)
    except KeyError:
        return f"| {target.what} | {limit} | - | not measured |"
    verdict = "met" if target.is_met(value) else "**missed**"
    return f"| {target.what} | {limit} | {shown(value)} {target.unit} | {verdict} |"


def _limit(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _part_lines(result: Result) -> Iterator[str]:
    yield f"## {result.title}\n"
    yield result.about + "\n"
    yield f"{_when(result)}\n"
    yield from _table_lines(result.rows)
    yield ""
    if result.ratios:
        yield "Ratios, made of the medians above:\n"
        yield from _table_lines(result.ratios)
        yield ""
    for drawing, _ in drawings_of(result):
        yield f"![{drawing.title}](images/{drawing.file})\n"


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


def _table_lines(rows: Table) -> Iterator[str]:
    columns = columns_of(rows)
    yield "| | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for name, row in rows.items():
        yield f"| {name} | " + " | ".join(shown(row.get(column)) for column in columns) + " |"


if __name__ == "__main__":
    write_page()
