"""`sirocco demo`."""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from app.cli import options
from app.cli.backtest.report import report
from app.cli.console import note, progress
from app.cli.options import moment
from app.cli.serving.client import ServiceClient
from app.cli.serving.playback import (
    HOST,
    SECONDS_PER_HOUR,
    Hour,
    Playback,
    impressions_and_clicks,
    of_immediate,
    play_and_judge,
    private_service,
)
from app.cli.serving.settings import free_port, is_free, settings_with, show_addresses
from app.cli.serving.up import WholeService
from app.errors import CommandError
from app.reports.pictures import check_picture
from app.results.scored_events import Judged, after, learnt_hours
from evaluation import Platform

_DEFAULT_PORT = 8080
# These campaigns drift within hours.
_WINDOW_HOURS = 6
_TARGET, _TRUTH = "click", "truth"

_Campaigns = Annotated[int, typer.Option("--campaigns", min=1, help="How many campaigns.")]
_Hours = Annotated[int, typer.Option("--hours", min=2, help="How many hours of traffic.")]
_Impressions = Annotated[
    int, typer.Option("--impressions", min=1, help="Impressions of an average hour.")
]
_Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed is another platform.")]
_Start = Annotated[
    float | None,
    typer.Option(
        "--start",
        parser=lambda text: moment(text, "--start"),
        metavar="TIME",
        help="The moment to start at: the traffic is that of the whole hours before it. RFC 3339"
        " or seconds since 1970.",
        show_default="now",
    ),
]
_Stay = Annotated[
    bool, typer.Option("--stay", help="Keep the service up afterwards, until Ctrl-C.")
]


def demo(
    stay: _Stay = False,
    campaigns: _Campaigns = 20,
    hours: _Hours = 36,
    impressions: _Impressions = 20_000,
    seed: _Seed = 0,
    start: _Start = None,
    picture: options.Picture = Path("reliability.png"),
    no_picture: options.NoPicture = False,
    json: options.Json = False,
    window: options.DemoWindow = None,
    bin_size: options.BinSize = None,
    calibrator: options.Calibrator = None,
) -> None:
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
    """
    fit = {"window_hours": window or _WINDOW_HOURS, "bin_size": bin_size, "calibrator": calibrator}
    settings = settings_with(fit)
    fit["calibrator"] = calibrator = calibrator or settings.calibrator_of(_TARGET)
    _require_judged_hours(hours, settings.window_hours)
    shown = None if no_picture else picture
    if shown is not None:
        check_picture(shown)
    now = time.time() if start is None else start
    platform = _platform(campaigns, hours, impressions, seed, now)
    try:
        with private_service(
            {**fit, **of_immediate(_TARGET)}, _port() if stay else None
        ) as service:
            judged = _play(
                service.url, platform, hours, settings.window_hours, calibrator, quiet=json
            )
            how = after(learnt_hours(settings, calibrator))
            report(judged, f"{campaigns} synthetic campaigns", how, picture=shown, as_json=json)
            if stay:
                _stay_up(service)
    except KeyboardInterrupt:
        note("the demo has ended")


def _platform(campaigns: int, hours: int, impressions: int, seed: int, now: float) -> Platform:
    """A platform whose last hour is the last whole one before `now`, in epoch seconds."""
    return Platform(
        campaigns=campaigns,
        impressions_per_hour=impressions,
        seed=seed,
        start=(now // SECONDS_PER_HOUR - hours) * SECONDS_PER_HOUR,
    )


def _stay_up(service: WholeService) -> None:
    note("\nThe service stays up until Ctrl-C:")
    show_addresses(service.url)
    service.supervision.tend()


def _require_judged_hours(hours: int, window_hours: int) -> None:
    if hours <= window_hours:
        raise CommandError(
            f"--hours {hours}: a window of {window_hours} h fills first and only the hours after it"
            f" are judged, so give more than {window_hours}"
        )


def _port() -> int:
    return _DEFAULT_PORT if is_free(HOST, _DEFAULT_PORT) else free_port(HOST)


def _play(
    url: str, platform: Platform, hours: int, window_hours: int, calibrator: str, *, quiet: bool
) -> Judged:
    start = int(platform.start // SECONDS_PER_HOUR)
    traffic = [platform.hour(hour) for hour in range(hours)]
    numbered = [Hour(number, hour.events) for number, hour in enumerate(traffic, start)]
    with (
        ServiceClient(url) as client,
        progress("playing", hours, "hours", shown=not quiet) as advance,
    ):
        playback = Playback(client, _TARGET, impressions_and_clicks)
        first = start + window_hours
        judged = play_and_judge(playback, numbered, first, calibrator, advance)
    truth = np.concatenate([hour.truth for hour in traffic[window_hours:]])
    return Judged(judged.events, {**judged.predictions, _TRUTH: truth})
