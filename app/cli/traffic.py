"""`sirocco demo` and `sirocco replay`: their options."""

from dataclasses import dataclass
from pathlib import Path

from app.cli import options
from app.cli.options import moment


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The synthetic platform of a demo, and how it is calibrated."""

    stay: bool = options.option(False, "Keep the service up afterwards, until Ctrl-C.")
    campaigns: options.Campaigns = 20
    hours: int = options.option(36, "How many hours of traffic.", min=2)
    impressions: int = options.option(20_000, "Impressions of an average hour.", min=1)
    seed: options.PlatformSeed = 0
    start: float | None = options.option(
        None,
        "The moment to start at: the traffic is that of the whole hours before it."
        " RFC 3339 or seconds since 1970.",
        parser=lambda text: moment(text, "--start"),
        metavar="TIME",
        show_default="now",
    )
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
    """
    from app.cli.serving.demo import run_demo

    run_demo(given)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What of a log is replayed through which service, and what is written."""

    target: options.Target = None
    url: options.Url = None
    delayed: bool = options.option(
        False, "The log holds clicks, whose conversions came late.", rich_help_panel=options.DELAYED
    )
    scored_hours: options.ScoredHours = None
    fields: str | None = options.option(
        None,
        "Columns that are fields of the events, such as device,placement; a service of yours"
        " declares them as SIROCCO_FIELDS.",
        metavar="NAMES",
    )
    picture: options.Picture = Path("reliability.png")
    no_picture: options.NoPicture = False
    json: options.Json = False


@options.grouped
def replay(
    log: options.Log,
    given: ReplayOptions,
    fit: options.FitOptions,
    columns: options.AnyLogColumnOptions,
    reading: options.ReadingOptions,
) -> None:
    """Play a real log through the real service, hour by hour, and print before and after.

    For each hour: calibrate its scores over HTTP, then post its outcomes,
    then refit. Every probability is given before its outcome is known. The
    hours after the first window are evaluated. Without --url it starts a service
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
    from app.cli.serving.replay import run_replay

    run_replay(log, given, fit, columns, reading)
