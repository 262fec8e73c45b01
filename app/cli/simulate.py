"""`sirocco simulate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import options
from app.cli.console import note, progress
from app.errors import Advance, CommandError

if TYPE_CHECKING:
    from evaluation import ClickPlatform, ClickStream, Platform

HOURS_PER_DAY = 24
_SECONDS_PER_DAY = 86_400.0
_CLICKS_PER_HOUR = 2_400

_Log = Annotated[
    Path, typer.Argument(metavar="PATH", help="Where the log goes: a .parquet.", show_default=False)
]
_Days = Annotated[int, typer.Option("--days", min=1, help="How many days of events.")]
_Clicks = Annotated[
    int | None,
    typer.Option("--clicks", min=1, help="Clicks of an average hour.", show_default="2400"),
]
_Impressions = Annotated[
    int | None,
    typer.Option(
        "--impressions",
        min=1,
        help="Write scored impressions instead, this many in an average hour.",
        show_default=False,
    ),
]
_Drift = Annotated[
    float, typer.Option("--drift", min=0, help="How much campaigns change: 0 not at all.")
]


def simulate(
    path: _Log,
    days: _Days = 21,
    seed: options.PlatformSeed = 0,
    campaigns: options.Campaigns = 8,
    clicks: _Clicks = None,
    impressions: _Impressions = None,
    drift: _Drift = 1.0,
) -> None:
    """Write the log of a synthetic platform, to try the other commands on.

    By default the click log of a platform whose conversions come days late.
    Scores promise several times too many conversions, in each campaign in its
    own drifting way. Of the conversions 8 % come within an hour of the click,
    17 % after 100 hours, all within 7 days.

    With --impressions the impression log of a platform whose click scores are
    wrong in the same manner: with bids, with the scores of a better model
    ([italic]candidate[/italic]), and with the arms of an A/A test over users.

    [bold]Examples[/bold]

      sirocco simulate clicks.parquet
      sirocco simulate small.parquet --days 14 --clicks 300 --seed 3
      sirocco simulate log.parquet --impressions 5000 --days 4 --campaigns 20
    """
    from evaluation import ClickPlatform, Platform

    if impressions is None:
        rate = clicks or _CLICKS_PER_HOUR
        _simulate_clicks(path, days, ClickPlatform(campaigns, rate, seed=seed, drift=drift))
        return
    if clicks is not None:
        raise CommandError("--clicks does not go with --impressions: give one of them")
    _simulate_impressions(path, days, Platform(campaigns, impressions, seed=seed, drift=drift))


def _simulate_clicks(path: Path, days: int, platform: "ClickPlatform") -> None:
    from app.datasets.clicks import write_click_log
    from evaluation.simulation.click_platform import ATTRIBUTION_SECONDS

    known_until = platform.start + days * _SECONDS_PER_DAY + ATTRIBUTION_SECONDS
    with progress("simulating clicks", days, "days", shown=True) as advance:
        written = write_click_log(path, _simulated(platform, days, advance), known_until)
    note(f"{path}: {written:,} clicks of {_counted(days)}. Next: sirocco backtest {path} --delayed")


def _simulate_impressions(path: Path, days: int, platform: "Platform") -> None:
    from app.datasets.synthetic_log import write_impression_log

    hours = days * HOURS_PER_DAY
    with progress("simulating impressions", hours, "hours", shown=True) as advance:
        written = write_impression_log(path, platform, hours, advance)
    note(f"{path}: {written:,} impressions of {_counted(days)}. Next: sirocco evaluate {path}")


def _simulated(platform: "ClickPlatform", days: int, advance: Advance) -> Iterator["ClickStream"]:
    for day in range(days):
        yield platform.hours(day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY).stream
        advance("")


def _counted(days: int) -> str:
    return f"{days} day{'s' if days > 1 else ''}"
