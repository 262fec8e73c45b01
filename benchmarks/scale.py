"""How far sirocco goes on how many machines: the tables of docs/scale.md, worked out from the unit
costs that the other benchmarks measured.

    python -m benchmarks.scale
"""

import sys
from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import Final

from app.results.capacity import BUSY, MAP_BYTES, MEMORY_ROOM, REFIT_MB, REFIT_SECONDS
from app.results.capacity import VERSION_BYTES as VERSION
from benchmarks.figures import middle
from benchmarks.report.results import saved

A_SECOND: Final = 1_000_000
PROCESSES: Final = 1_000
CORES, CORE_HOUR = 16, 0.04
"""Of a machine, and what one of its cores costs an hour, in any currency: assumptions."""
REFIT_EVERY: Final = 3600
MASTERS: Final = (1, 3, 16)
GIGABITS: Final = 10.0
"""A second, of the network of the server with the maps."""
ID_HOURS: Final = 25
"""A window and an hour: how long ids are kept unless told otherwise."""
_TRAFFIC: Final = {"impressions": "impressions", "with ids and clicks": "ids and clicks"}
_BATCHES: Final = (1, 100, 1_000, 10_000)
Row = Sequence[str]


class UnitCosts:
    """Cells of docs/benchmarks: microseconds of CPU."""

    def __init__(self) -> None:
        self._results = saved()

    def of(self, part: str, row: str, column: str) -> float:
        """One cell."""
        return middle(self._results[part].rows[row][column])

    def event(self, traffic: str, batch: int) -> tuple[float, float]:
        """Of an event: the API's and Redis'."""
        row = f"over HTTP: sirocco, {_TRAFFIC[traffic]}, batch of {batch:,}"
        return self.of("ingest", row, "server us"), self.of("ingest", row, "Redis us")

    @property
    def fold(self) -> float:
        """Of an event: what the worker does until it is in the bins, Redis included."""
        campaigns, an_hour = 100_000, 100
        seconds = self.of("refit", "fold s", f"{campaigns:,} campaigns, pooled")
        return 1e6 * seconds / (campaigns * an_hour)

    def score(self, batch: int) -> float:
        """Of a score to calibrate."""
        request = self.of("calibrate", "sirocco, columns", f"batch of {batch:,}")
        return request / batch


def costs(units: UnitCosts) -> Iterator[Row]:
    """Of a million events, and of a million scores."""
    for traffic in _TRAFFIC:
        for batch in _BATCHES:
            api, redis = units.event(traffic, batch)
            yield _priced(f"events, {traffic}", batch, (api, redis, units.fold))
    for batch in (1, 100, 1_000):
        yield _priced("scores", batch, (units.score(batch),))


def _priced(what: str, batch: int, each: Sequence[float]) -> Row:
    seconds = sum(each)
    shown = " + ".join(f"{value:.2f}" for value in each)
    price = 100 * seconds / BUSY * CORE_HOUR / 3600
    return what, f"{batch:,}", f"{shown} = {seconds:.2f} s", f"{price:.2g}"


def parts(units: UnitCosts) -> Iterator[Row]:
    """What a million events and scores a second take, cores being half busy."""
    for traffic in _TRAFFIC:
        api, redis = units.event(traffic, 1_000)
        yield _needed(f"API, events {traffic}", api, "cores")
        yield _needed(f"Redis, events {traffic}", redis, "masters")
    busy = A_SECOND * units.fold / 1e6
    yield ("worker, folds", f"{A_SECOND:,} x {units.fold:.2f} us", f"{busy:.0%} of the one worker")
    for batch in (1, 100, 1_000):
        yield _needed(f"API, scores in batches of {batch:,}", units.score(batch), "cores")
    each = units.of("memory", "id", "bytes")
    needed = MEMORY_ROOM * A_SECOND * 3600 * ID_HOURS * each / 1e9
    yield (
        "Redis, ids of events",
        f"{A_SECOND:,} x 3,600 s x {ID_HOURS} h x {each:.0f} B x {MEMORY_ROOM}",
        f"{needed:,.0f} GB: {MASTERS[-1]} masters of {ceil(needed / MASTERS[-1])} GB",
    )


def _needed(what: str, each: float, unit: str) -> Row:
    found = A_SECOND * each / 1e6 / BUSY
    return what, f"{A_SECOND:,} x {each:.2f} us / {BUSY}", f"{found:.1f}: {ceil(found)} {unit}"


def limits(units: UnitCosts) -> Iterator[Row]:
    """The most events a second, in requests of 1,000, of so many machines, and what ends it."""
    two = [_of_one_machine(units, traffic, 2) for traffic in _TRAFFIC]
    yield "1 of 2 cores", *(f"{found:,.0f} (all its cores)" for found in two)
    for masters in MASTERS:
        name = f"1 of {CORES} cores" if masters == 1 else f"{masters} masters, APIs, 1 worker"
        yield name, *(_limit(units, traffic, masters) for traffic in _TRAFFIC)


def _of_one_machine(units: UnitCosts, traffic: str, cores: int) -> float:
    return _rounded(cores * BUSY * 1e6 / (sum(units.event(traffic, 1_000)) + units.fold))


def _limit(units: UnitCosts, traffic: str, masters: int) -> str:
    _, redis = units.event(traffic, 1_000)
    ends = {"Redis": masters * BUSY * 1e6 / redis, "the worker": BUSY * 1e6 / units.fold}
    if masters == 1:
        ends["all its cores"] = _of_one_machine(units, traffic, CORES)
    first = min(ends, key=ends.__getitem__)
    return f"{_rounded(ends[first]):,.0f} ({first})"


def _rounded(number: float) -> float:
    return floor(number / 10_000) * 10_000


def processes() -> Iterator[Row]:
    """What a thousand API processes read of one server when a version comes, and hold."""
    for maps in (10_000, 100_000, A_SECOND):
        read = PROCESSES * maps * VERSION.at(maps)
        held = MEMORY_ROOM * 2 * maps * MAP_BYTES.at(maps)
        yield (
            f"{maps:,}",
            f"{PROCESSES:,} x {maps:,} x {VERSION.at(maps):.0f} B = {read / 1e9:,.1f} GB",
            f"{8 * read / 1e9 / GIGABITS:,.0f} s",
            f"{held / 1e9:.2f} GB",
        )


def refits() -> Iterator[Row]:
    """What the hourly refit of one target takes of one worker."""
    for campaigns in (10_000, 100_000, A_SECOND):
        seconds = REFIT_SECONDS.at(campaigns)
        yield (
            f"{campaigns:,}",
            f"{seconds:,.0f} s",
            f"{seconds / REFIT_EVERY:.0%}",
            f"{MEMORY_ROOM * REFIT_MB.at(campaigns) / 1e3:.1f} GB",
        )


def markdown(head: Row, rows: Iterator[Row]) -> str:
    """A table of a page."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> list[str]:
    """Those of docs/scale.md, in its order."""
    units = UnitCosts()
    return [
        markdown(("machines", *(f"events/s, {each}" for each in _TRAFFIC)), limits(units)),
        markdown(("a million", "a request", "API + Redis + fold", "cents"), costs(units)),
        markdown(("part", "arithmetic", "needs"), parts(units)),
        markdown(("maps", "read at a new version", "at 10 Gb/s", "held by each"), processes()),
        markdown(("campaigns", "CPU of a refit", "of an hour", "memory of the worker"), refits()),
    ]


def main() -> None:
    """Print the tables."""
    sys.stdout.write("\n\n".join(tables()) + "\n")


if __name__ == "__main__":
    main()
