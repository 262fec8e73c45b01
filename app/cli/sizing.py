"""`sirocco size`: how large a service must be."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from app.cli import options
from app.cli.console import note, numbers_table, print_json, print_table

if TYPE_CHECKING:
    from app.results.capacity import Capacity, Need


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """How much there is to do."""

    campaigns: int = options.option(..., "Campaigns that have traffic within a day.", min=1)
    events_per_second: float = options.option(
        ..., "Impressions, clicks and outcomes that are reported a second, on average.", min=0.001
    )
    scores_per_second: float | None = options.option(
        None, "Scores to calibrate a second.", show_default="as many as events", min=0
    )
    clicks_per_second: float = options.option(
        0.0, "Clicks a second that may bring conversions days later.", min=0
    )
    batch: int = options.option(100, "Events or scores in a request.", min=1, max=50_000)
    field_values: int = options.option(
        10, "Values of each declared field that are most of the traffic.", min=1
    )
    json: options.Json = False


@options.grouped
def size(given: TrafficOptions) -> None:
    """Say how large a service must be: cores, memory and disk for so much traffic.

    Reckoned from benchmarks, with half of each core left free. The settings of the
    environment count, such as SIROCCO_HISTORY_HOURS or SIROCCO_VERSIONS_KEPT.

    [bold]Examples[/bold]

      sirocco size --campaigns 10000 --events-per-second 1000
      sirocco size --campaigns 500 --events-per-second 200 --clicks-per-second 4 --json
    """
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
    from app.results.capacity import DATE, MACHINE

    table = numbers_table("", "cores", "memory GB", "disk GB")
    for name, need in found.needs.items():
        table.add_row(name, *_cells(need))
    print_table(table)
    note(
        f"an hourly refit takes {found.refit_seconds:,.1f} s of CPU; measured on {DATE}: {MACHINE}"
    )
    for warning in found.warnings:
        note(warning)


def _cells(need: "Need") -> tuple[str, str, str]:
    """A need that there is not is empty."""
    cores = f"{need.cores:,}" if need.cores else ""
    memory, disk = (f"{size / 1e9:,.2f}" if size else "" for size in (need.memory, need.disk))
    return cores, memory, disk
