"""`sirocco replay`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import options
from app.cli.backtest.report import report, report_delayed
from app.cli.console import progress
from app.cli.serving.client import ServiceClient
from app.cli.serving.delayed_replay import DelayedReplay
from app.cli.serving.playback import (
    Playback,
    hours_of,
    of_immediate,
    outcomes,
    play_and_judge,
    private_service,
)
from app.cli.serving.settings import settings_with
from app.datasets.clicks import ClickColumns
from app.datasets.impressions import LogColumns, read_log
from app.errors import CommandError
from app.reports.pictures import check_picture
from app.results.scored_events import Judged, after, first_judged_hour, learnt_hours
from evaluation import EventTable

_CALIBRATED, _CLICK = "calibrated", "click"

_Delayed = Annotated[
    bool,
    typer.Option(
        "--delayed",
        help="The log holds clicks, whose conversions came late.",
        rich_help_panel=options.DELAYED,
    ),
]


def replay(
    log: options.Log,
    target: options.Target = None,
    url: options.Url = None,
    delayed: _Delayed = False,
    judged: options.JudgedHours = None,
    picture: options.Picture = Path("reliability.png"),
    no_picture: options.NoPicture = False,
    json: options.Json = False,
    window: options.Window = None,
    bin_size: options.BinSize = None,
    calibrator: options.Calibrator = None,
    min_samples: options.MinSamples = None,
    min_positives: options.MinPositives = None,
    score: options.ScoreColumn = "score",
    outcome: options.OutcomeColumn = "outcome",
    campaign: options.CampaignColumn = "campaign",
    time: options.TimeColumn = "time",
    bid: options.BidColumn = "bid",
    converted: options.ConvertedColumn = "converted_at",
) -> None:
    """Play a real log through the real service, hour by hour, and print before and after.

    For each hour: calibrate its scores over HTTP, then post its outcomes,
    then refit. Every probability is given before its outcome is known. The
    hours after the first window are judged. Without --url it starts a service
    of its own, and ends it; a service of yours needs SIROCCO_CLOCK=event and
    the log's targets.

    With --delayed the log is a click log. Each hour its clicks, behaviours and
    the conversions of that hour are posted; at midnight a model is trained.
    The result is the row of the service's labels in `sirocco backtest --delayed`.

    [bold]Examples[/bold]

      sirocco replay log.parquet --window 6h
      sirocco replay clicks.csv.gz --score pctr --outcome click --bin-size 200
      sirocco replay log.parquet --url http://127.0.0.1:8080
      sirocco replay clicks.parquet --delayed --judged 2d
    """
    fit = {
        "window_hours": window,
        "bin_size": bin_size,
        "calibrator": calibrator,
        "min_samples": min_samples,
        "min_positives": min_positives,
    }
    settings = settings_with(fit)
    shown = None if no_picture else picture
    if shown is not None:
        check_picture(shown)
    if url is not None:
        _refuse_foreign(url, fit)
    if delayed:
        run = DelayedReplay(target, fit, judged or options.WEEK_HOURS, url)
        found = run.run(log, ClickColumns(time, campaign, score, converted), quiet=json)
        report_delayed(found, log.name, picture=shown, as_json=json)
        return
    if judged is not None:
        raise CommandError("--judged goes with --delayed only")
    events = read_log(log, LogColumns(score, outcome, campaign, time, bid))
    first = first_judged_hour(events, settings.window_hours)
    target = target or _CLICK
    fit["calibrator"] = name = calibrator or settings.calibrator_of(target)
    found = _replay(events, first, target, url, fit, quiet=json)
    how = after(learnt_hours(settings, name) if url is None else settings.window_hours)
    report(found, log.name, how, picture=shown, as_json=json)


def _replay(
    events: EventTable,
    first: int,
    target: str,
    url: str | None,
    fit: Mapping[str, Any],
    *,
    quiet: bool,
) -> Judged:
    hours = hours_of(events)
    with (
        _running(url, target, fit) as (service, name),
        progress("replaying", len(hours), "hours", shown=not quiet) as advance,
    ):
        return play_and_judge(Playback(service, target, outcomes), hours, first, name, advance)


@contextmanager
def _running(
    url: str | None, target: str, fit: Mapping[str, Any]
) -> Iterator[tuple[ServiceClient, str]]:
    """The service to play through, and what its probabilities are called."""
    if url is not None:
        with ServiceClient(url) as client:
            yield client, _CALIBRATED
        return
    settings = {**fit, **of_immediate(target)}
    with private_service(settings) as service, ServiceClient(service.url) as client:
        yield client, fit["calibrator"]


def _refuse_foreign(url: str, fit: Mapping[str, Any]) -> None:
    """The window is also ours: it says which hours are judged."""
    given = [field for field, value in fit.items() if value is not None and field != "window_hours"]
    if given:
        option = given[0].replace("_", "-")
        raise CommandError(f"--{option} is a setting of the service at {url}: set it there")
