"""docs/benchmarks.md, from the results of one run."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import Table, shown
from benchmarks.machine import machine, versions
from benchmarks.parts import Result
from benchmarks.printing import columns_of
from benchmarks.sources import source_digest
from benchmarks.targets import TARGETS, Tables, Target

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
IDLE_CORES = 0.1
"""Above this, others were at work on the machine, and the page says so."""


def write_page(results: Sequence[Result], command: str, digest_before: str) -> None:
    """Write the page of a run that has just ended."""
    PAGE.parent.mkdir(exist_ok=True)
    code = measured_code(digest_before, source_digest())
    PAGE.write_text("\n".join(page(results, command, code, datetime.now(UTC))) + "\n")


def measured_code(before: str, after: str) -> str:
    """What the page says about the digests of the sources before and after the run."""
    if before == after:
        return f"Code: sources {before}"
    return f"**The code changed during the run**, from sources {before} to {after}: run it again."


def page(results: Sequence[Result], command: str, code: str, at: datetime) -> Iterator[str]:
    """The lines of the page."""
    yield "# Benchmarks\n"
    yield f"Written by `{command}` on {at:%Y-%m-%d at %H:%M} UTC; do not edit.\n"
    yield f"* Machine: {machine()}"
    yield "* Versions: " + ", ".join(f"{name} {number}" for name, number in versions().items())
    yield f"* {code}"
    yield f"* {_company(results)}"
    yield "* Cells are medians of rounds, with their quartiles in brackets. The ways of one table"
    yield "  took turns in one run. Times are CPU time unless they say wall.\n"
    yield "## Targets\n"
    yield from _target_lines({result.part.name: result.rows for result in results})
    for result in results:
        yield from _part_lines(result)


def _company(results: Sequence[Result]) -> str:
    busy = {r.part.name: r.other_cores for r in results if r.other_cores > IDLE_CORES}
    if not busy:
        return "No other work ran on the machine."
    parts = ", ".join(f"{name} ({cores:.1f} cores)" for name, cores in busy.items())
    return f"**The machine was busy with other work** during: {parts}."


def _target_lines(tables: Tables) -> Iterator[str]:
    yield "| target | limit | measured | |"
    yield "|---|---:|---:|---|"
    yield from (_target_line(target, tables) for target in TARGETS)
    yield ""


def _target_line(target: Target, tables: Tables) -> str:
    bound = "at least" if target.at_least else "at most"
    limit = f"{bound} {target.limit:,.0f} {target.unit}"
    try:
        value = target.found(tables)
    except KeyError:
        return f"| {target.what} | {limit} | - | not measured in this run |"
    verdict = "met" if target.is_met(value) else "**missed**"
    return f"| {target.what} | {limit} | {shown(value)} {target.unit} | {verdict} |"


def _part_lines(result: Result) -> Iterator[str]:
    yield f"## {result.part.title}\n"
    yield _about(result) + "\n"
    yield f"`{result.part.command}`; it took {result.seconds:.0f} s.\n"
    yield from _table_lines(result.rows)
    yield ""


def _about(result: Result) -> str:
    """The module's docstring without the command at its end."""
    return result.part.about.partition("\n    python -m")[0].strip()


def _table_lines(rows: Table) -> Iterator[str]:
    columns = columns_of(rows)
    yield "| | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for name, row in rows.items():
        yield f"| {name} | " + " | ".join(shown(row.get(column)) for column in columns) + " |"
