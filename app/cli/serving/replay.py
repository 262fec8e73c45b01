"""`sirocco replay`: a log through a service, before and after."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.cli.console import progress
from app.cli.measure.delayed_backtest import report_delayed
from app.cli.measure.scorecards import report_scorecards
from app.cli.options import WEEK_HOURS, AnyLogColumnOptions, FitOptions, refuse
from app.cli.serving.client import ServiceClient
from app.cli.serving.delayed_replay import DelayedReplay
from app.cli.serving.playback import (
    Playback,
    hours_of,
    of_immediate,
    outcomes,
    play_and_score,
    private_service,
)
from app.cli.serving.settings import settings_with
from app.cli.traffic import ReplayOptions
from app.datasets.clicks import ClickColumns
from app.datasets.impressions import LogColumns, read_log
from app.errors import CommandError
from app.reports.pictures import check_picture
from app.results.scored_events import ScoredEvents, after, first_evaluated_hour, learnt_hours
from evaluation import EventTable

_CALIBRATED, _CLICK = "calibrated", "click"


def run_replay(
    log: Path, given: ReplayOptions, fit: FitOptions, columns: AnyLogColumnOptions
) -> None:
    """Replay the log through a service, and print and draw what came of it."""
    fitted = asdict(fit)
    settings = settings_with(fitted)
    picture = None if given.no_picture else given.picture
    check_picture(picture)
    if given.url is not None:
        _refuse_foreign(given.url, fitted)
    if given.delayed:
        _replay_delayed(log, given, fitted, columns, picture)
        return
    refuse({"--judged": given.scored_hours}, "goes with --delayed only")
    names = LogColumns(columns.score, columns.outcome, columns.campaign, columns.time, columns.bid)
    events = read_log(log, names)
    first = first_evaluated_hour(events, settings.window_hours)
    target = given.target or _CLICK
    fitted["calibrator"] = name = fit.calibrator or settings.calibrator_of(target)
    scored = _replay(events, first, target, given.url, fitted, quiet=given.json)
    own = learnt_hours(settings, name) if given.url is None else settings.window_hours
    report_scorecards(scored, log.name, after(own), picture=picture, as_json=given.json)


def _replay_delayed(
    log: Path,
    given: ReplayOptions,
    fit: Mapping[str, Any],
    columns: AnyLogColumnOptions,
    picture: Path | None,
) -> None:
    run = DelayedReplay(given.target, fit, given.scored_hours or WEEK_HOURS, given.url)
    names = ClickColumns(columns.time, columns.campaign, columns.score, columns.converted)
    scored = run.run(log, names, quiet=given.json)
    report_delayed(scored, log.name, picture=picture, as_json=given.json)


def _replay(
    events: EventTable,
    first: int,
    target: str,
    url: str | None,
    fit: Mapping[str, Any],
    *,
    quiet: bool,
) -> ScoredEvents:
    hours = hours_of(events)
    with (
        _running(url, target, fit) as (service, name),
        progress("replaying", len(hours), "hours", shown=not quiet) as advance,
    ):
        return play_and_score(Playback(service, target, outcomes), hours, first, name, advance)


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
    """The window is also ours: it says which hours are evaluated."""
    given = [field for field, value in fit.items() if value is not None and field != "window_hours"]
    if given:
        option = given[0].replace("_", "-")
        raise CommandError(f"--{option} is a setting of the service at {url}: set it there")
