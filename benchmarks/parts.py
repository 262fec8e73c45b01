"""A part of the benchmarks, how it is run, and what it says meanwhile."""

import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from types import FrameType

from benchmarks.figures import Table
from benchmarks.machine import machine, versions, watched
from benchmarks.printing import print_json, print_tables
from benchmarks.results import Result, Sources, save
from benchmarks.sources import source_digest


@dataclass(frozen=True, slots=True)
class Part:
    """One module: `measure()` yields its rows, `measure_large()` those of `--large`.

    `ratios(rows)`, where there are any, is a second table that is made of the first.
    """

    name: str
    title: str
    about: str
    measure: Callable[[], Table]
    measure_large: Callable[[], Table] | None = None
    ratios: Callable[[Table], Table] | None = None

    @property
    def command(self) -> str:
        """How to run it alone."""
        return f"python -m benchmarks.{self.name}"


def run(part: Part, large: bool = False) -> Result:
    """Measure a part."""
    before, at, began = source_digest(), datetime.now(UTC), perf_counter()
    say(f"{part.name} ...")
    measure = part.measure_large if large and part.measure_large else part.measure
    with _stopped_in_order(), watched() as usage:
        rows = measure()
    say(f"{part.name}: {perf_counter() - began:.0f} s")
    return Result(
        part=part.name,
        title=part.title,
        about=_about(part),
        command=part.command + " --large" * (measure is not part.measure),
        rows=rows,
        seconds=usage.seconds,
        other_cores=usage.other_cores,
        measured_at=at,
        machine=machine(),
        versions=versions(),
        sources=Sources(before, source_digest()),
        ratios=part.ratios(rows) if part.ratios else {},
    )


@contextmanager
def _stopped_in_order() -> Iterator[None]:
    """SIGTERM ends a part as an error does: with all the servers that it has started."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def say(words: str) -> None:
    """Tell whoever waits how far it is; the figures alone go to standard output."""
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {words}\n")
    sys.stderr.flush()


def arguments(about: str) -> ArgumentParser:
    """The options that the parts share with the whole."""
    parser = ArgumentParser(description=about)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--large",
        action="store_true",
        help="the sizes that take long too, such as the refit of 100,000 campaigns",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the figures in docs/benchmarks and write docs/benchmarks.md again",
    )
    return parser


def main(part: Part) -> None:
    """Run one part from the command line."""
    given = arguments(part.title).parse_args()
    result = run(part, given.large)
    show([result], given)
    if given.write:
        keep(result)


def keep(result: Result) -> None:
    """The result into its file, and the page of all files anew."""
    from benchmarks.page import write_page  # It draws: most runs need none of that.

    save(result)
    write_page()


def show(results: Sequence[Result], given: Namespace) -> None:
    """Print results as asked for."""
    (print_json if given.json else print_tables)(results)


def _about(part: Part) -> str:
    """The module's docstring without the command at its end."""
    return part.about.partition("\n    python -m")[0].strip()
