"""What the figures must reach, and whether they do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Table, middle
from benchmarks.http.calibrate_ratios import (
    ECHOES,
    FIELDS,
    FRAMEWORKS,
    INTERVAL,
    KEY_AND_ID,
    QUANTILE,
    column_of,
)

Tables = Mapping[str, Table]
LINEAR = 12.0
"""Ten times the campaigns may cost this many times the CPU and still be called linear."""


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one number of the run: at most, or at least when `at_least`."""

    what: str
    limit: float
    unit: str
    found: Callable[[Tables], float]
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        """Whether the value is on the right side of the limit."""
        return value >= self.limit if self.at_least else value <= self.limit


def _cell(part: str, row: str, column: str) -> Callable[[Tables], float]:
    return lambda tables: middle(tables[part][row][column])


def _ratio(row: str, size: int) -> Callable[[Tables], float]:
    return _cell("calibrate ratios", row, column_of(size))


def _growth(tables: Tables) -> float:
    small, large = (
        middle(tables["refit"]["CPU s"][f"{count} campaigns"]) for count in ("10,000", "100,000")
    )
    return large / small


def _pooled_growth(tables: Tables) -> float:
    small, large = (
        middle(tables["pooled"][f"{count} campaigns, 48 h"]["pooled, cold s"])
        for count in ("10,000", "100,000")
    )
    return large / small


def _gc_3_against(row: str, other: str) -> Callable[[Tables], float]:
    return lambda tables: (
        middle(tables["delayed"][row]["GC-3"]) / middle(tables["delayed"][other]["GC-3"])
    )


def _against_echo(column: str, of: Callable[[float], float] = float) -> Callable[[Tables], float]:
    """Calibrations of the soak over the echo of the same run."""

    def found(tables: Tables) -> float:
        ours, echo = (tables["soak"][row][column] for row in ("all calibrations", "raw ASGI echo"))
        return of(middle(ours)) / of(middle(echo))

    return found


def _minute_against_echo(tables: Tables) -> float:
    """Their p99.9 over the echo's of the same minute, in the median minute: what the host takes of
    a single one does not count there."""
    minutes = [row for name, row in tables["soak"].items() if name.startswith("minute ")]
    return median(middle(row["p99.9 ms"]) / middle(row["echo, p99.9 ms"]) for row in minutes)


def _moved(percent: float) -> float:
    return 1 + percent / 100


TARGETS = (
    Target(
        "client: one look-up in the caller's process",
        300,
        "ns",
        _cell("client", "edge, one score, ns", "sirocco-client"),
    ),
    Target(
        "client: batch of 1,000 with names, per value",
        60,
        "ns",
        _cell("client", "edge, batch of 1,000, ns", "sirocco-client"),
    ),
    Target("one scalar look-up", 500, "ns", _cell("look_up", "scalar", "sirocco: all")),
    *(
        Target(
            f"mixed batch of {size} over 10,000 campaigns, per value, look-up",
            limit,
            "ns",
            _cell("look_up", f"batch of {size}", "sirocco: look-up"),
        )
        for size, limit in (("1,000", 60), ("10,000", 50), ("1,000,000", 40))
    ),
    *(
        Target(
            f"from published to served by two processes, 10,000 maps, {how}",
            limit,
            "ms",
            _cell("refresh", "10,000 maps", how),
        )
        for how, limit in (
            ("by notice, p50 ms", 50),
            ("by notice, p99 ms", 1000),
            ("by polling, p99 ms", 1000),
        )
    ),
    *(
        Target(
            f"cold start with {maps} maps, until it is ready",
            3,
            "s",
            _cell("refresh", f"{maps} maps", "cold start, s"),
        )
        for maps in ("10,000", "100,000")
    ),
    *(
        Target(
            f"calibration over HTTP, {what}, CPU over that of a {echo}",
            limit,
            "x",
            _ratio(f"sirocco over {kind}, {form}", size),
        )
        for echo, kind in ECHOES.items()
        for what, limit, form, size in (
            ("batch of 1", 1.4, "columns", 1),
            ("batch of 100, columns", 3, "columns", 100),
            ("batch of 1,000, binary", 2.5, "binary, ids", 1_000),
        )
    ),
    *(
        Target(
            f"calibration over HTTP, batch of {size}, with {option}, CPU over that without",
            limit,
            "x",
            _ratio(f"columns with {option} over columns", size),
        )
        for option, limit, size in (
            (KEY_AND_ID, 1.15, 1),
            (KEY_AND_ID, 1.15, 100),
            (INTERVAL, 1.25, 100),
            (QUANTILE, 1.25, 100),
            (FIELDS, 1.3, 100),
        )
    ),
    *(
        Target(
            f"calibration over HTTP, batch of 100: CPU of FastAPI, pydantic, {how} over ours",
            5,
            "x",
            _ratio(f"naive, {how} over sirocco", 100),
            at_least=True,
        )
        for how in ("numpy.interp", "scikit-learn")
    ),
    Target(
        "calibration over HTTP, batch of 1,000, binary, on one core",
        8_000_000,
        "predictions/s",
        _ratio("predictions/s of a core, binary, ids", 1_000),
        at_least=True,
    ),
    *(
        Target(
            f"calibration over HTTP, batch of {size}: CPU of {name}, best setting, over ours",
            limit,
            "x",
            _ratio(f"{name} over sirocco, its best setting", size),
            at_least=True,
        )
        for size, limit in ((1, 10), (100, 6))
        for name in FRAMEWORKS
    ),
    *(
        Target(f"three times the peak, {mix}: {what}", limit, unit, found, at_least)
        for mix in ("calibrations and events", "calibrations")
        for what, limit, unit, found, at_least in (
            ("goodput", 90, "% of the peak", _cell("overload", mix, "goodput, %"), True),
            ("p99 of what is answered", 250, "ms", _cell("overload", mix, "p99, ms"), False),
        )
    ),
    *(
        Target(
            f"SIR from the bins of {size} impressions",
            200,
            "us",
            _cell("fit", f"from bins of {size}", "sirocco"),
        )
        for size in ("10,000", "100,000", "1,000,000")
    ),
    Target(
        "refit of 10,000 campaigns x 24 h, worker and Redis",
        5,
        "s",
        _cell("refit", "CPU s", "10,000 campaigns"),
    ),
    Target(
        "refit of 10,000 campaigns x 24 h, pooled, worker and Redis",
        20,
        "s",
        _cell("refit", "CPU s", "10,000 campaigns, pooled"),
    ),
    Target("refit of 100,000 campaigns, as a multiple of that of 10,000", LINEAR, "x", _growth),
    *(
        Target(
            f"pooled: memory that a refit of {what} adds",
            2_000,
            "MB",
            _cell("pooled", row, "pooled, cold, grown MB"),
        )
        for what, row in (
            ("10,000 campaigns x 24 h", "10,000 campaigns"),
            ("100,000 campaigns x 48 h", "100,000 campaigns, 48 h"),
        )
    ),
    Target(
        "pooled: refit of 100,000 campaigns x 48 h, as a multiple of that of 10,000",
        LINEAR,
        "x",
        _pooled_growth,
    ),
    *(
        Target(
            f"ingest over HTTP in batches of 1000, {kind}, server and Redis on one core",
            150_000,
            "events/s",
            _cell("ingest", f"over HTTP: sirocco, {kind}, batch of 1,000", "events/s of a core"),
            at_least=True,
        )
        for kind in ("impressions", "ids and clicks")
    ),
    Target(
        "ingest over HTTP in batches of 10, impressions, server and Redis on one core",
        60_000,
        "events/s",
        _cell("ingest", "over HTTP: sirocco, impressions, batch of 10", "events/s of a core"),
        at_least=True,
    ),
    Target(
        "post-click model: scoring on one core",
        200_000,
        "clicks/s",
        _cell("pccem", "scoring clicks/s of a core", "1,000,000 clicks"),
        at_least=True,
    ),
    Target(
        "post-click model: training on 1,000,000 mature clicks, two cores",
        60,
        "s",
        _cell("pccem", "training wall s", "1,000,000 clicks"),
    ),
    Target(
        "relabelling and refit of 1,000,000 clicks of 24 h from the click log, one core",
        20,
        "s",
        _cell("click_log", "refit CPU s", "1,000,000 clicks"),
    ),
    *(
        Target(f"{what}: GC-N below no calibration, worst of seeds and N", 85, "%", found, True)
        for what, found in (
            ("PCCEM as published", _cell("delayed", "pccem", "worst cut, %")),
            ("PCCEM, posterior", _cell("delayed", "pccem_posterior", "worst cut, %")),
        )
    ),
    Target(
        "PCCEM, posterior: closed of the distance from PCCEM as published to the oracle, GC-3",
        100 / 3,
        "%",
        _cell("delayed", "pccem_posterior", "closed, %"),
        at_least=True,
    ),
    Target(
        "evaluate: 10,000,000 rows, wall",
        15,
        "s",
        _cell("evaluate", "10,000,000 rows, Parquet", "wall s"),
    ),
    Target(
        "evaluate: 10,000,000 rows, most memory",
        2_000,
        "MB",
        _cell("evaluate", "10,000,000 rows, Parquet", "peak MB"),
    ),
    Target("STC, GC-3 against no calibration", 1, "x", _gc_3_against("stc", "none"), at_least=True),
    Target("LTC, GC-3 against no calibration", 1, "x", _gc_3_against("ltc", "none")),
    Target("LTC, GC-3 against PCCEM as published", 1, "x", _gc_3_against("ltc", "pccem"), True),
    *(
        Target(
            f"AUC of 10,000,000 samples, {rate} clicks, scikit-learn's time over ours",
            2,
            "x",
            _cell("metrics", f"auc, 10,000,000, {rate}", "peer / sirocco"),
            at_least=True,
        )
        for rate in ("1%", "50%")
    ),
    *(
        Target(
            f"csAUC of {size} samples, exact, {rate} clicks",
            limit,
            "s",
            _cell("metrics", f"cs_auc, {size}, {rate}", "sirocco s"),
        )
        for size, limit in (("1,000,000", 1), ("10,000,000", 15))
        for rate in ("1%", "10%", "50%")
    ),
    *(
        Target(f"the page, {what} of the overview", limit, unit, _cell("page", "overview", column))
        for what, limit, unit, column in (
            ("bytes", 100, "kB", "kB"),
            ("first picture", 300, "ms", "first picture, ms"),
        )
    ),
    Target(
        "lake: rows that one core turns into bins in a second, no fields",
        1_500_000,
        "rows/s",
        _cell("lake", "4,000,000 rows, 0 fields", "rows/s a core"),
        at_least=True,
    ),
    Target(
        "soak: p99.9 of calibrations at half the saturating load, refits going on, over an echo's",
        1.5,
        "x",
        _against_echo("p99.9 ms"),
    ),
    Target(
        "soak: the same p99.9 over the echo's of the same minute, in the median minute",
        1.5,
        "x",
        _minute_against_echo,
    ),
    Target(
        "soak: how refits move the p99 of calibrations, over how they move an echo's",
        1.2,
        "x",
        _against_echo("refits move p99, %", _moved),
    ),
    *(
        Target(f"soak: {what}", 0, "of all", _cell("soak", "whole run", what))
        for what in ("errors", "wrong answers")
    ),
    *(
        Target(
            f"soak: memory of the {what}, last quarter over the second",
            2,
            "%",
            _cell("soak", "whole run", f"{row}, %"),
        )
        for what, row in (
            ("server", "server MB grown"),
            ("server but for its filters of ids", "server MB grown but for filters of ids"),
            ("worker", "worker MB grown"),
        )
    ),
)
