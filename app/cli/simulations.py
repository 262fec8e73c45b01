"""`sirocco replay`, `backtest`, `auction` and `simulate`: their options."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import options
from app.cli.console import note, progress
from app.errors import Advance, CommandError

if TYPE_CHECKING:
    from evaluation import ClickPlatform, ClickStream, Platform


_compared = partial(
    options.option, rich_help_panel="The comparison of all methods", show_default=False
)
_delayed = partial(options.option, rich_help_panel=options.DELAYED)

_Logs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LOG",
        help=f"Scored impressions: {options.LOG_FORMS} With --delayed, click logs, one or several.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class BacktestOptions:
    """What is backtested and how: one log, click logs with --delayed, all methods with --compare.

    None, or False, where nothing is given.
    """

    calibrators: str | None = options.option(
        None,
        "Some of pooled, identity, sir, isotonic, platt, temperature, beta, histogram, bbq.",
        metavar="NAMES",
        show_default="all but identity",
    )
    raw_samples: bool = options.option(
        False, "Fit on every single sample as printed in the paper, not on bins."
    )
    delayed: bool = _delayed(
        False, "The logs are click logs whose conversions come late, as `sirocco simulate` writes."
    )
    seeds: int | None = _delayed(
        None,
        "Without a log: this many synthetic ones with --delayed, seeds of each regime with"
        " --compare.",
        min=1,
        show_default="1 with --compare",
    )
    feature: list[str] | None = _delayed(
        None,
        "A column that was known before the click, or NAME=COLUMN+COLUMN for a sum, besides those"
        " named feature.*; may be repeated.",
        metavar="NAME",
        show_default=False,
    )
    behaviour: list[str] | None = _delayed(
        None,
        "The same of the post-click window, besides behaviour.*: a number from 0 up, or empty.",
        metavar="NAME",
        show_default=False,
    )
    scored_hours: options.ScoredHours = None
    compare: bool = _compared(
        False, "Every method in every regime of synthetic traffic, or on a log; see docs/proof.md."
    )
    regimes: str | None = _compared(
        None,
        "Some of the regimes of docs/proof.md, such as mixed,cycles,push.",
        metavar="NAMES",
        show_default="all",
    )
    methods: str | None = _compared(
        None,
        "Some of the methods, by their names in the tables.",
        "--contenders",
        metavar="NAMES",
        show_default="all",
    )
    drift: bool = _compared(
        False, "Refits every 60, 15 and 5 minutes around a jump; the regimes only where named."
    )
    processes: int | None = _compared(
        None, "Plays at a time; each takes a core and up to 2 GB.", min=1, max=256, show_default="1"
    )
    saved: list[Path] | None = _compared(
        None,
        "Play nothing: show what --json has written; may be given again.",
        "--from",
        metavar="PATH",
    )
    write: Path | None = _compared(
        None, "Write the tables into a Markdown page, between its two marks.", metavar="PAGE"
    )
    fields: str | None = options.option(
        None,
        "Columns that are fields, such as device,placement: pooled learns their effects.",
        metavar="NAMES",
    )
    against: str | None = options.option(
        None,
        "What the others are compared with, besides the raw scores.",
        metavar="NAME",
        show_default="the service's calibrator, or the best",
    )
    draws: int | None = options.option(
        None,
        "Resamples of campaign-days behind each interval; 0 for no intervals.",
        min=0,
        show_default="1000; 300 for GC-3 and AUC",
    )
    seed: int | None = options.option(None, "Of the resamples.", min=0, show_default="0")
    output: Path | None = options.option(
        None,
        "Write each row's probability by each method there, a .parquet.",
        metavar="PATH",
        show_default=False,
    )
    force: bool = options.option(False, "With --output: replace a file that is there.")
    report: options.Report = None
    picture: options.OptionalPicture = None
    json: options.Json = False


@options.grouped
def backtest(
    logs: _Logs = None,
    *,
    given: BacktestOptions,
    fit: options.FitOptions,
    columns: options.AnyLogColumnOptions,
    reading: options.ReadingOptions,
) -> None:
    """Compare calibrators on a log, without a service.

    Each hour is evaluated by maps fitted on the window before it, with the very
    code the service runs: the row `sir` is what `sirocco replay` prints for it.
    pooled learns from all campaigns at once, over a window of its own.
    Differences from the raw scores, and from the service's calibrator (pooled),
    come with intervals over resampled campaign-days: which are beyond chance?

    With --delayed it compares ways to count young clicks whose conversions
    come late, evaluated by the final ones. [italic]none[/italic]: the scores as they are.
    [italic]stc[/italic]: conversions within the hour. [italic]ltc[/italic]: clicks a week old.
    [italic]pccem[/italic]: what the post-click model expects. [italic]pccem_posterior[/italic]:
    that, and what has been seen. [italic]oracle[/italic]: the future.

    With --compare all methods are compared, each of them refitted hour by hour:
    without a log in regimes of synthetic traffic, where the truth is known and so
    is how far each method stays from it; with a log on what happened. --picture
    draws how far. --json keeps the result of a long run, --from shows it again.

    [bold]Examples[/bold]

      sirocco backtest log.parquet --window 6h
      sirocco backtest log.parquet --calibrators pooled,sir --bin-size 200
      sirocco backtest log.parquet --against beta --report backtest.html
      sirocco backtest log.parquet --fields device,placement
      sirocco backtest log/ --calibrators pooled --output predictions.parquet
      sirocco backtest clicks.parquet --delayed
      sirocco backtest --delayed --seeds 5 --calibrator pooled
      sirocco backtest --compare --regimes mixed,sparse --judged 6h
      sirocco backtest --compare --seeds 5 --processes 2 --json > result.json
      sirocco backtest --compare --from result.json --report result.html
      sirocco backtest log.parquet --compare --contenders identity,sir,pooled
    """
    from app.cli.measure.backtest import run_backtest

    run_backtest(logs or [], given, fit, columns, reading)


_column = options.column
_auction = partial(options.option, rich_help_panel="How the auction is held")
_clicks = partial(options.option, rich_help_panel="How clicks are expected")
_OPERATING_POINTS = "Operating points"
_sweep = partial(options.option, rich_help_panel=_OPERATING_POINTS)
ALPHAS, LOADS = "0.6,0.8,1,1.3,1.6", "1"
_demo = partial(options.option, rich_help_panel="Without a log")
_ALPHAS = "Try other alphas at equal mainline load."
_Sweep = Annotated[bool, options.named(_OPERATING_POINTS, "--sweep", _ALPHAS)]


@dataclass(frozen=True, slots=True)
class AuctionColumnOptions:
    """The columns of a log of auctions."""

    page: str = _column("page", "Page (request) of the candidate.")
    query: str = _column("query", "What the user searched for.")
    ad: str = _column("ad", "The ad; once on a page.")
    position: str = _column("position", "Slot it was shown in, from 1; empty or 0: not shown.")
    clicked: str = _column("clicked", "0 or 1; may be empty.")
    bid: str = _column("bid", "Bid for a click, from 0.")
    score: str = _column("score", "Model in force: probability of a click at the first position.")
    candidate: str | None = _column(
        None,
        "The same of the new model.",
        metavar="TEXT",
        show_default="candidate, where the log has it",
    )


@dataclass(frozen=True, slots=True)
class AuctionOptions:
    """How auctions are held, clicks expected and operating points chosen."""

    mainline: int = _auction(4, "Slots above.", min=0, max=1_000)
    sidebar: int = _auction(
        5, "Slots beside; positions go on after the mainline's last.", min=0, max=1_000
    )
    alpha: float = _auction(1.0, "Click investment power: ads rank by bid * score ** alpha.", min=0)
    reserve: float | None = _auction(
        None, "Least rank score to be shown.", min=0, show_default="as many ads a page as logged"
    )
    mainline_reserve: float | None = _auction(
        None,
        "Least rank score in the mainline.",
        min=0,
        show_default="as many mainline ads a page as logged",
    )
    curve: str = _clicks("mle", "How the click curve is estimated.", metavar="mle|naive")
    shrinkage: float = _clicks(
        20.0,
        "Impressions by which a rate at a position is drawn to the ad's elsewhere; 0 as"
        " in the paper.",
        min=0,
    )
    min_impressions: float = _clicks(
        1.0, "Impressions at a position that its own rate needs.", min=1
    )
    most_unseen: float = _clicks(
        0.2,
        "Share of slots with ads never shown for the query above which nothing is concluded.",
        min=0,
        max=1,
    )
    confidence: float = _clicks(0.95, "Of intervals.", min=0.5, max=0.999)
    alphas: str | None = _sweep(None, "Which, comma-separated.", show_default=ALPHAS)
    loads: str | None = _sweep(
        None, "Mainline ads a page, as multiples of today's, comma-separated.", show_default=LOADS
    )


@dataclass(frozen=True, slots=True)
class SyntheticAuctionOptions:
    """A synthetic log in place of a file."""

    demo: bool = _demo(
        False,
        "Use a synthetic log, whose truth is known: a candidate that AUC and RIG praise"
        " and users click less.",
    )
    pages: int = _demo(50_000, "Pages of that log.", min=1_000, max=10_000_000)
    seed: int = _demo(1, "Another seed is another log.", min=0)
    write: Path | None = _demo(
        None,
        "With --demo: save that log as a .parquet or .csv, to see what one looks like.",
        metavar="PATH",
    )
    force: bool = _demo(False, "With --write: replace a file that is there.")


@options.grouped
def auction(
    log: Annotated[str | None, options.log_argument("Auctions")] = None,
    sweep: _Sweep = False,
    report: options.Report = None,
    json: options.Json = False,
    *,
    columns: AuctionColumnOptions,
    how: AuctionOptions,
    synthetic: SyntheticAuctionOptions,
    reading: options.ReadingOptions,
) -> None:
    """Run a log's ad auctions again with a new model: what would it earn?

    The log has a row for each candidate of each page, shown or not: page,
    query, ad, position (from 1; empty where not shown), clicked, bid, the score
    in force and that of the new model. Positions 1 to 4 are the mainline above
    the results, 5 to 9 the sidebar, however few ads stand above. Scores are
    click probabilities at the first position.

    Each page is auctioned again (generalised second price), and a slot's
    clicks are expected from the log: from the query and ad at that position,
    else at other positions, else from the position alone. Prints clicks,
    revenue and ads of an average page with intervals, and beside them what
    AUC and RIG say, which may be the opposite. Five million candidates take
    a minute and 2 GB.

    [bold]Examples[/bold]

      sirocco auction --demo
      sirocco auction --demo --write auctions.parquet
      sirocco auction auctions.parquet --sweep --report auctions.html
      sirocco auction log.csv.gz --score pctr --candidate pctr_new --json
    """
    from app.cli.measure.auction import run_auction

    run_auction(log, columns, how, synthetic, reading, sweep=sweep, report=report, as_json=json)


HOURS_PER_DAY = 24
_SECONDS_PER_DAY = 86_400.0
_CLICKS_PER_HOUR = 2_400

_Log = Annotated[
    Path, typer.Argument(metavar="PATH", help="Where the log goes: a .parquet.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The synthetic platform, and how much of it is written."""

    days: int = options.option(21, "How many days of events.", min=1, max=3_650)
    seed: options.PlatformSeed = 0
    campaigns: options.Campaigns = 8
    clicks: int | None = options.option(
        None, "Clicks of an average hour.", min=1, max=10_000_000, show_default="2400"
    )
    impressions: int | None = options.option(
        None,
        "Write scored impressions instead, this many in an average hour.",
        min=1,
        max=10_000_000,
    )
    drift: float = options.option(1.0, "How much campaigns change: 0 not at all.", min=0, max=10)
    fields: options.SyntheticFields = None
    force: bool = options.option(False, "Replace a file that is there.")


@options.grouped
def simulate(path: _Log, given: SimulateOptions) -> None:
    """Write the log of a synthetic platform, to try the other commands on.

    By default the click log of a platform whose conversions come days late.
    Scores predict several times too many conversions, in each campaign in its
    own drifting way. Of the conversions 8 % come within an hour of the click,
    17 % after 100 hours, all within 7 days.

    With --impressions the impression log of a platform whose click scores are
    wrong in the same manner: with bids, with the scores of a better model
    ([italic]candidate[/italic]), with the arms of an A/A test over users, and with fields where
    [italic]--fields[/italic] names some.

    [bold]Examples[/bold]

      sirocco simulate clicks.parquet
      sirocco simulate small.parquet --days 14 --clicks 300 --seed 3
      sirocco simulate log.parquet --impressions 5000 --days 4 --campaigns 20
      sirocco simulate log.parquet --impressions 5000 --fields device,placement
    """
    from app.whole_files import check_new
    from evaluation import ClickPlatform, Platform

    check_new(path, "the log", force=given.force)
    drawn: Any = {"seed": given.seed, "drift": given.drift}
    if given.impressions is None:
        if given.fields:
            raise CommandError("--fields goes with --impressions: click logs have none here")
        rate = given.clicks or _CLICKS_PER_HOUR
        _simulate_clicks(path, given.days, ClickPlatform(given.campaigns, rate, **drawn))
        return
    if given.clicks is not None:
        raise CommandError("--clicks does not go with --impressions: give one of them")
    drawn["fields"] = _declared(given.fields)
    _simulate_impressions(path, given.days, Platform(given.campaigns, given.impressions, **drawn))


def _declared(fields: str | None) -> tuple[str, ...]:
    """As a service takes them; CommandError for names that are none, or that the log has."""
    from app.cli.serving.settings import settings_with
    from app.datasets.impressions import SCHEMA

    found = settings_with({"fields": options.names(fields)}).fields
    for name in found:
        if name in SCHEMA.names:
            raise CommandError(f"--fields {name}: the log has a column of that name")
    return found


def _simulate_clicks(path: Path, days: int, platform: "ClickPlatform") -> None:
    from app.datasets.clicks import write_click_log
    from evaluation.simulation.click_platform import ATTRIBUTION_SECONDS

    known_until = platform.start + days * _SECONDS_PER_DAY + ATTRIBUTION_SECONDS
    with progress("simulating clicks", days, "days", shown=True) as advance:
        written = write_click_log(path, _simulated(platform, days, advance), known_until)
    note(f"{path}: {written:,} clicks of {_counted(days)}. Next: sirocco backtest {path} --delayed")


def _simulate_impressions(path: Path, days: int, platform: "Platform") -> None:
    from app.datasets.impressions import write_impression_log

    hours = days * HOURS_PER_DAY
    with progress("simulating impressions", hours, "hours", shown=True) as advance:
        written = write_impression_log(path, platform, hours, advance)
    told = f"{path}: {written:,} impressions of {_counted(days)}. Next: sirocco evaluate {path}"
    note(told + (f" --fields {','.join(platform.fields)}" if platform.fields else ""))


def _simulated(platform: "ClickPlatform", days: int, advance: Advance) -> Iterator["ClickStream"]:
    for day in range(days):
        yield platform.hours(day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY).stream
        advance("")


def _counted(days: int) -> str:
    return f"{days} day{'s' if days > 1 else ''}"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What of a log is replayed through which service, and what is written."""

    target: options.Target = None
    url: options.Url = None
    delayed: bool = options.option(
        False, "The log holds clicks, whose conversions came late.", rich_help_panel=options.DELAYED
    )
    scored_hours: options.LastHours = None
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
