"""`sirocco up`, `serve`, `worker`, `demo` and `size`: their options."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import options

if TYPE_CHECKING:
    from app.results.capacity import Capacity, Need


# How a parent tells a worker: numbers of its socket, its file, the file's rows and the row.
_AsWorker = Annotated[str | None, typer.Option("--as-worker", hidden=True)]

_LOST = "Close clicks into the click log of this worker from now on: the one before is lost."
_Adopt = Annotated[bool, options.flag("--adopt-click-log", _LOST)]


@options.grouped
def up(
    service: options.ServeOptions, fit: options.RefitOptions, json: options.Json = False
) -> None:
    """Run the whole service: Redis, API and worker, until Ctrl-C.

    Without --redis-url it brings its own Redis, whose data survive a restart.
    A process that dies is started again. SIGHUP replaces the API's processes as
    `sirocco serve --workers` does, and starts the worker again. Every setting is
    also an environment variable, such as SIROCCO_PORT.

    [bold]Examples[/bold]

      sirocco up
      sirocco up --port 9000 --window 6h --bin-size 500
      sirocco up --calibrator pooled --refit-every 5m
      sirocco up --redis-url redis://cache:6379/0 --workers 4 --json
    """
    from app.cli.serving.whole_service import run_until_ctrl_c

    run_until_ctrl_c({**asdict(service), **asdict(fit)}, as_json=json)


@options.grouped
def serve(service: options.ServeOptions, as_worker: _AsWorker = None) -> None:
    """Run the API: it answers /v1/calibrate and stores events.

    Run as many as you like on one Redis, beside at least one `sirocco worker`.
    With --workers, a parent starts so many processes that share the port, and
    starts again what dies. SIGHUP to the parent replaces one after the other
    without refusing a connection; one process alone goes on as it is. SIGTERM
    ends all when they have answered.

    [bold]Examples[/bold]

      sirocco serve --redis-url redis://cache:6379/0
      sirocco serve --port 8081 --workers 4
    """
    from app.cli.serving.serve import run_api

    run_api(asdict(service), as_worker)


@options.grouped
def worker(
    store: options.StoreOptions, fit: options.RefitOptions, adopt_click_log: _Adopt = False
) -> None:
    """Run one worker: each hour it evaluates the maps in force, fits new ones and publishes them.

    One worker at a time holds the job; a second one waits, and takes over when
    the first is gone.

    [bold]Examples[/bold]

      sirocco worker --redis-url redis://cache:6379/0
      sirocco worker --window 6h --bin-size 500
      sirocco worker --calibrator pooled --refit-every 5m --group '^([^/]+)/'
    """
    from app.cli.serving.serve import run_worker_process

    run_worker_process({**asdict(store), **asdict(fit)}, adopt_click_log=adopt_click_log)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The synthetic platform of a demo, and how it is calibrated."""

    stay: bool = options.option(False, "Keep the service up afterwards, until Ctrl-C.")
    campaigns: options.Campaigns = 20
    hours: int = options.option(36, "How many hours of traffic.", min=2, max=8_760)
    impressions: int = options.option(
        20_000, "Impressions of an average hour.", min=1, max=10_000_000
    )
    seed: options.PlatformSeed = 0
    start: float | None = options.option(
        None,
        "The moment to start at: the traffic is that of the whole hours before it."
        " RFC 3339 or seconds since 1970.",
        parser=lambda text: options.moment(text, "--start"),
        metavar="TIME",
        show_default="now",
    )
    fields: options.SyntheticFields = None
    picture: options.Picture = Path("reliability.png")
    no_picture: options.NoPicture = False
    json: options.Json = False
    window_hours: options.DemoWindow = None
    bin_size: options.BinSize = None
    calibrator: options.Calibrator = None


@options.grouped
def demo(given: DemoOptions) -> None:
    """Watch it work: a synthetic ad platform's traffic through a whole service, in a minute.

    Starts Redis, API and worker; sends the impressions and clicks of
    campaigns whose scores are wrong, each in its own drifting way; refits
    every hour; prints before and after. The row [italic]truth[/italic] is what the
    clicks were drawn from: nothing can do better.

    [bold]Examples[/bold]

      sirocco demo
      sirocco demo --stay
      sirocco demo --campaigns 100 --hours 48 --window 12h --seed 7
      sirocco demo --start 2026-01-01T00:30:00Z
      sirocco demo --stay --fields device,placement
    """
    from app.cli.serving.demo import run_demo

    run_demo(given)


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """How much there is to do."""

    campaigns: int = options.option(
        ..., "Campaigns that have traffic within a day.", min=1, max=10**9
    )
    events_per_second: float = options.option(
        ...,
        "Impressions, clicks and outcomes that are reported a second, on average.",
        min=0.001,
        max=1e9,
    )
    scores_per_second: float | None = options.option(
        None, "Scores to calibrate a second.", show_default="as many as events", min=0, max=1e9
    )
    clicks_per_second: float = options.option(
        0.0, "Clicks a second that may bring conversions days later.", min=0, max=1e9
    )
    batch: int = options.option(100, "Events or scores in a request.", min=1, max=50_000)
    field_values: int = options.option(
        10, "Values of each declared field that are most of the traffic.", min=1, max=10**9
    )
    json: options.Json = False


@options.grouped
def size(given: TrafficOptions) -> None:
    """Say how large a service must be: cores, memory and disk for so much traffic.

    Reckoned from benchmarks, with half of each core left free. The settings of
    the environment count, such as SIROCCO_HISTORY_HOURS or SIROCCO_VERSIONS_KEPT.

    [bold]Examples[/bold]

      sirocco size --campaigns 10000 --events-per-second 1000
      sirocco size --campaigns 500 --events-per-second 200 --json
    """
    from app.cli.console import print_json
    from app.cli.serving.settings import settings_with
    from app.results.capacity import Traffic, capacity

    events = given.events_per_second
    scores = events if given.scores_per_second is None else given.scores_per_second
    rates = (events, scores, given.clicks_per_second)
    traffic = Traffic(given.campaigns, *rates, given.batch, given.field_values)
    found = capacity(traffic, settings_with({}))
    if given.json:
        print_json({**asdict(traffic), **asdict(found)})
    else:
        _show(found)


def _show(found: "Capacity") -> None:
    from app.cli.console import note, numbers_table, print_table
    from app.results.capacity import DATES, MACHINE

    table = numbers_table("", "cores", "memory GB", "disk GB")
    for name, need in found.needs.items():
        table.add_row(name, *_cells(need))
    print_table(table)
    note(f"an hourly refit takes {found.refit_seconds:,.1f} s of CPU; measured {DATES}: {MACHINE}")
    for warning in found.warnings:
        note(warning)


def _cells(need: "Need") -> tuple[str, str, str]:
    """A need that there is not is empty."""
    cores = f"{need.cores:,}" if need.cores else ""
    memory, disk = (f"{size / 1e9:,.2f}" if size else "" for size in (need.memory, need.disk))
    return cores, memory, disk
