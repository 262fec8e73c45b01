"""`sirocco simulate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from app.command_line.click_files import write_click_log
from app.command_line.console import note
from app.command_line.progress import Advance, progress
from evaluation import ClickPlatform, ClickStream
from evaluation.click_platform import ATTRIBUTION_SECONDS

HOURS_PER_DAY = 24
_SECONDS_PER_DAY = 86_400.0

_Log = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="Where the log goes: a .parquet.", show_default=False),
]
_Days = Annotated[int, typer.Option("--days", min=1, help="How many days of clicks.")]
_Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed is another platform.")]
_Campaigns = Annotated[int, typer.Option("--campaigns", min=1, help="How many campaigns.")]
_Clicks = Annotated[int, typer.Option("--clicks", min=1, help="Clicks of an average hour.")]
_Drift = Annotated[
    float, typer.Option("--drift", min=0, help="How much campaigns change: 0 not at all.")
]


def simulate(
    path: _Log,
    days: _Days = 21,
    seed: _Seed = 0,
    campaigns: _Campaigns = 8,
    clicks: _Clicks = 2_400,
    drift: _Drift = 1.0,
) -> None:
    """Write the click log of a synthetic platform whose conversions come days late.

    Scores promise several times too many conversions, in each campaign in its
    own drifting way. Of the conversions 8 % come within an hour of the click,
    17 % after 100 hours, all within 7 days.

    [bold]Examples[/bold]

      sirocco simulate clicks.parquet
      sirocco simulate small.parquet --days 14 --clicks 300 --seed 3
    """
    platform = ClickPlatform(campaigns=campaigns, clicks_per_hour=clicks, seed=seed, drift=drift)
    known_until = platform.start + days * _SECONDS_PER_DAY + ATTRIBUTION_SECONDS
    with progress("drawing clicks", days, "days", shown=True) as advance:
        written = write_click_log(path, _drawn(platform, days, advance), known_until)
    note(f"{path}: {written:,} clicks of {days} days. Next: sirocco backtest {path} --delayed")


def _drawn(platform: ClickPlatform, days: int, advance: Advance) -> Iterator[ClickStream]:
    for day in range(days):
        yield platform.hours(day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY).stream
        advance("")
