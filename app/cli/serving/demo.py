"""`sirocco demo`: synthetic traffic through a whole service, before and after."""

import time

import numpy as np

from app.cli.console import note, progress
from app.cli.measure.scorecards import report_scorecards
from app.cli.options import names
from app.cli.run import DemoOptions
from app.cli.serving.client import ServiceClient
from app.cli.serving.playback import (
    HOST,
    Hour,
    Playback,
    impressions_and_clicks,
    of_immediate,
    play_and_score,
    private_service,
)
from app.cli.serving.settings import free_port, is_free, settings_with, show_addresses
from app.cli.serving.whole_service import WholeService
from app.errors import CommandError
from app.reports.pictures import check_picture
from app.results.backtest import ScoredEvents, after
from app.settings import SECONDS_PER_HOUR
from evaluation import Platform

# These campaigns drift within hours.
_WINDOW_HOURS = 6
_TARGET, _TRUTH = "click", "truth"


def run_demo(given: DemoOptions) -> None:
    """Play synthetic traffic through a service, print before and after, and stay up if asked to."""
    fit = {
        "window_hours": given.window_hours or _WINDOW_HOURS,
        "bin_size": given.bin_size,
        "calibrator": given.calibrator,
        "fields": names(given.fields) or None,
    }
    settings = settings_with(fit)
    fit["calibrator"] = calibrator = given.calibrator or settings.calibrator_of(_TARGET)
    _require_evaluated_hours(given.hours, settings.window_hours)
    picture = None if given.no_picture else given.picture
    check_picture(picture)
    platform = _platform(given, time.time() if given.start is None else given.start)
    port = wanted_port_or_another(settings.port) if given.stay else None
    with private_service({**fit, **of_immediate(_TARGET)}, port) as service:
        scored = _play(
            service.url, platform, given.hours, settings.window_hours, calibrator,
            quiet=given.json,
        )  # fmt: skip
        how = after(settings, [calibrator])
        name = f"{given.campaigns} synthetic campaigns"
        report_scorecards(scored, name, how, picture=picture, as_json=given.json)
        if given.stay:
            _stay_up(service)


def _platform(given: DemoOptions, now: float) -> Platform:
    """A platform whose last hour is the last whole one before `now`, in epoch seconds."""
    return Platform(
        campaigns=given.campaigns,
        impressions_per_hour=given.impressions,
        seed=given.seed,
        start=(now // SECONDS_PER_HOUR - given.hours) * SECONDS_PER_HOUR,
        fields=names(given.fields),
    )


def _stay_up(service: WholeService) -> None:
    note("\nThe service stays up until Ctrl-C:")
    show_addresses(service.url)
    try:
        service.supervision.watch()
    except KeyboardInterrupt:
        note("the demo has ended")


def _require_evaluated_hours(hours: int, window_hours: int) -> None:
    if hours <= window_hours:
        raise CommandError(
            f"--hours {hours}: a window of {window_hours} h fills first and only the hours after it"
            f" are evaluated, so give more than {window_hours}"
        )


def wanted_port_or_another(wanted: int) -> int:
    """The port that is set, or another where that one is taken."""
    if is_free(HOST, wanted):
        return wanted
    port = free_port(HOST)
    note(f"port {wanted} is taken: the service listens on {port}")
    return port


def _play(
    url: str, platform: Platform, hours: int, window_hours: int, calibrator: str, *, quiet: bool
) -> ScoredEvents:
    start = int(platform.start // SECONDS_PER_HOUR)
    traffic = [platform.hour(hour) for hour in range(hours)]
    numbered = [Hour(number, hour.events) for number, hour in enumerate(traffic, start)]
    with (
        ServiceClient(url) as client,
        progress("playing", hours, "hours", shown=not quiet) as advance,
    ):
        playback = Playback(client, _TARGET, impressions_and_clicks)
        first = start + window_hours
        scored = play_and_score(playback, numbered, first, calibrator, advance)
    truth = np.concatenate([hour.truth for hour in traffic[window_hours:]])
    return ScoredEvents(scored.events, {**scored.predictions, _TRUTH: truth})
