"""What `sirocco reproduce` runs and prints: a list of experiments, tables of checks, JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import Any, Final

import orjson
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.cli.console import progress, results
from app.errors import Advance
from research.reproduction import Check, Conclusion, Experiment, Reproduction

_STEPS = 100


@dataclass(frozen=True, slots=True)
class Finished:
    """A run of an experiment and how long it took."""

    experiment: Experiment
    reproduction: Reproduction
    seconds: float


@dataclass(frozen=True, slots=True)
class Size:
    """What an experiment is run with."""

    quick: bool
    seed: int


def run_each(experiments: Sequence[Experiment], size: Size, *, shown: bool) -> Iterator[Finished]:
    """Run one after the other; each is given as soon as it has ended."""
    for experiment in experiments:
        with progress(experiment.name, _STEPS, "%", shown=shown) as advance:
            started = perf_counter()
            bar = _Bar(advance)
            found = experiment.run(quick=size.quick, seed=size.seed, progress=bar)
            seconds = perf_counter() - started
        yield Finished(experiment, found, seconds)


@dataclass(slots=True)
class _Bar:
    """Turns the share that is done into steps."""

    advance: Advance
    steps: int = 0

    def __call__(self, share: float) -> None:
        while self.steps < min(int(share * _STEPS), _STEPS):
            self.steps += 1
            self.advance("")


STYLES: Final = {
    Conclusion.AGREES: "green",
    Conclusion.PAPER_ERRS: "yellow",
    Conclusion.DIFFERS: "bold red",
    Conclusion.NOT_CHECKED: "dim",
    Conclusion.SHOWN: "dim",
}
COUNTS: Final = {
    "agrees": Conclusion.AGREES,
    "paper_errs": Conclusion.PAPER_ERRS,
    "differs": Conclusion.DIFFERS,
    "not_checked": Conclusion.NOT_CHECKED,
    "shown": Conclusion.SHOWN,
}
ARITHMETIC: Final = "arithmetic"
"""Counts the checks that hold printed numbers against each other alone."""
_MINUTE = 60.0


def show_experiments(experiments: Iterable[Experiment]) -> None:
    """Print the experiments, one line each, and how long they take."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it repeats")
    table.add_column("takes about", justify="right", no_wrap=True)
    for experiment in experiments:
        table.add_row(experiment.name, experiment.about, duration(experiment.seconds))
    results().print(table)


def show_run(finished: Finished) -> None:
    """Print the tables of a run, its notes and the errata it found."""
    console, found = results(), finished.reproduction
    console.print(Text(f"{found.title} ({found.source})", style="bold"), soft_wrap=True)
    for part, checks in groupby(found.checks, key=lambda check: check.part):
        console.print(_table(part, list(checks)))
    for title, lines in (("Notes", found.notes), ("Errata", found.errata)):
        if lines:
            console.print(Text(title, style="italic"))
        for line in lines:
            console.print(Padding(Text(f"* {line}"), (0, 0, 0, 2), expand=False))
    console.print(_verdict_line(finished))


def print_json(runs: Sequence[Finished], size: Size) -> None:
    """Print `{"rows": {experiment: counts of verdicts}, "experiments": {experiment: checks}}`."""
    content = {
        "quick": size.quick,
        "seed": size.seed,
        "rows": {run.experiment.name: {**counts_of(run), "seconds": run.seconds} for run in runs},
        "experiments": {run.experiment.name: _experiment_json(run) for run in runs},
    }
    results().out(orjson.dumps(content).decode(), highlight=False)


def counts_of(finished: Finished) -> dict[str, int]:
    """How many checks ended with each verdict; those that use none of the product's code are
    counted apart, but for differences."""
    found = finished.reproduction
    counts, apart = found.counts, found.arithmetic_counts
    counts[Conclusion.DIFFERS] += apart[Conclusion.DIFFERS]
    return {
        **{name: counts[verdict] for name, verdict in COUNTS.items()},
        ARITHMETIC: apart.total() - apart[Conclusion.DIFFERS],
    }


def duration(seconds: float) -> str:
    """A time as text.

    >>> duration(0.2), duration(25.0), duration(150.0)
    ('1 s', '25 s', '2.5 min')
    """
    if seconds < _MINUTE:
        return f"{max(seconds, 1.0):.0f} s"
    return f"{seconds / _MINUTE:.2g} min"


def _table(part: str, checks: Sequence[Check]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(part or "quantity")
    for name in ("paper", "ours", "tolerance"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for check in checks:
        verdict = Text(verdict_text(check), style=STYLES[check.verdict])
        cells = (check.what, check.paper_shown, check.ours_shown, check.tolerance)
        table.add_row(*map(Text, cells), verdict)
    return table


def verdict_text(check: Check) -> str:
    """The verdict, and whether it says something of the paper alone."""
    return f"{check.verdict.value} (arithmetic)" if check.arithmetic else check.verdict.value


def _verdict_line(finished: Finished) -> Text:
    found = finished.reproduction
    parts: list[str | tuple[str, str]] = [(f"{finished.experiment.name}: ", "bold")]
    for verdict in Conclusion:
        if count := found.counts[verdict]:
            parts += [(f"{count} x {verdict}", STYLES[verdict]), "  "]
    for verdict in Conclusion:
        if count := found.arithmetic_counts[verdict]:
            parts += [(f"{count} x {verdict} by arithmetic", STYLES[verdict]), "  "]
    return Text.assemble(*parts, f"({duration(finished.seconds)})\n")


def _experiment_json(finished: Finished) -> dict[str, Any]:
    found = finished.reproduction
    return {
        "title": found.title,
        "source": found.source,
        "notes": list(found.notes),
        "errata": found.errata,
        "checks": [_check_json(check) for check in found.checks],
    }


def _check_json(check: Check) -> dict[str, Any]:
    return {
        "part": check.part,
        "what": check.what,
        "paper": None if check.paper is None else float(check.paper),
        "paper_text": check.paper_shown,
        "ours": float(check.ours),
        "low": float(check.low),
        "high": float(check.high),
        "tolerance": check.tolerance,
        "verdict": check.verdict.value,
        "arithmetic": check.arithmetic,
    }
