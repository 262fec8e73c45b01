"""The parts of the benchmarks, and the run of one of them."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from types import FrameType
from typing import Final

from benchmarks.figures import Table
from benchmarks.machine import machine, versions, watched
from benchmarks.report.results import Result, Sources, source_digest

PARTS: Final = {
    "look_up": "core.look_up",
    "calibrate": "http.calibrate",
    "encodings": "http.encodings",
    "connections": "http.connections",
    "overload": "http.overload",
    "client": "http.client",
    "ingest": "http.ingest",
    "refit": "core.refit",
    "together": "core.together",
    "labels": "core.labels",
    "refresh": "http.refresh",
    "page": "http.page",
    "memory": "http.memory",
    "fit": "core.fit",
    "pooled": "core.pooled",
    "pccem": "core.pccem",
    "click_log": "core.click_log",
    "delayed": "core.delayed",
    "pace": "core.pace",
    "drift": "core.drift",
    "evaluate": "core.evaluate",
    "fields": "core.fields",
    "lake": "core.lake",
    "grid": "core.grid",
    "metrics": "core.metrics",
    "guard": "core.guard",
    "attacks": "core.attacks",
    "soak": "soak.soak",
}
"""Name -> module, in the order in which they are run and shown."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a module measures: `measure()` yields its rows, `measure_large()` those of `--large`,
    `measure_minutes()` those of `--minutes`; `about` is its docstring.

    `ratios(rows)`, where there are any, is a second table that is made of the first.
    """

    name: str
    title: str
    about: str
    measure: Callable[[], Table]
    measure_large: Callable[[], Table] | None = None
    ratios: Callable[[Table], Table] | None = None
    measure_minutes: Callable[[float], Table] | None = None

    @property
    def command(self) -> str:
        """How to run it alone."""
        return f"python -m benchmarks {self.name}"


def run(part: Part, large: bool = False, minutes: float | None = None) -> Result:
    """Measure a part."""
    measure, options = _measurement(part, large, minutes)
    before, at, began = source_digest(), datetime.now(UTC), perf_counter()
    say(f"{part.name} ...")
    with _stopped_in_order(), watched() as usage:
        rows = measure()
    say(f"{part.name}: {perf_counter() - began:.0f} s")
    return Result(
        part=part.name,
        title=part.title,
        about=_about(part),
        command=part.command + options,
        rows=rows,
        seconds=usage.seconds,
        other_cores=usage.other_cores,
        measured_at=at,
        machine=machine(),
        versions=versions(),
        sources=Sources(before, source_digest()),
        ratios=part.ratios(rows) if part.ratios else {},
    )


def _measurement(part: Part, large: bool, minutes: float | None) -> tuple[Callable[[], Table], str]:
    """What to call, and the options that say so."""
    timed = part.measure_minutes
    if timed and minutes is not None:
        return lambda: timed(minutes), f" --minutes {minutes:g}"
    if large and part.measure_large:
        return part.measure_large, " --large"
    return part.measure, ""


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


def _about(part: Part) -> str:
    """The module's docstring without the command at its end."""
    return part.about.partition("\n    python -m")[0].strip()
