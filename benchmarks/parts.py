"""A part of the benchmarks, how it is run, and what came of it."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.figures import Table
from benchmarks.machine import watched
from benchmarks.printing import print_json, print_tables


@dataclass(frozen=True, slots=True)
class Part:
    """One module: `measure()` yields its rows, `measure_large()` those of `--large`."""

    name: str
    title: str
    about: str
    measure: Callable[[], Table]
    measure_large: Callable[[], Table] | None = None

    @property
    def command(self) -> str:
        """How to run it alone."""
        return f"python -m benchmarks.{self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a part, and how the machine was while it ran."""

    part: Part
    rows: Table
    seconds: float
    other_cores: float


def run(part: Part, large: bool) -> Result:
    """Measure a part."""
    with watched() as usage:
        measure = (large and part.measure_large) or part.measure
        rows = measure()
    return Result(part, rows, usage.seconds, usage.other_cores)


def arguments(about: str) -> ArgumentParser:
    """The options that the parts share with the whole."""
    parser = ArgumentParser(description=about)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--large",
        action="store_true",
        help="the refit of 100,000 campaigns and 10 million clicks too",
    )
    return parser


def main(part: Part) -> None:
    """Run one part from the command line."""
    given = arguments(part.title).parse_args()
    show([run(part, given.large)], given)


def show(results: list[Result], given: Namespace) -> None:
    """Print results as asked for."""
    tables = {result.part.name: (result.part.title, result.rows) for result in results}
    (print_json if given.json else print_tables)(tables)
