"""`sirocco auction`: its options."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from app.cli import options

_column = options.column
_auction = partial(typer.Option, rich_help_panel="How the auction is held")
_clicks = partial(typer.Option, rich_help_panel="How clicks are expected")
_sweep = partial(typer.Option, rich_help_panel="Operating points")
_demo = partial(typer.Option, rich_help_panel="Without a log")
_Sweep = Annotated[bool, _sweep("--sweep", help="Try other alphas at equal mainline load.")]


@dataclass(frozen=True, slots=True)
class AuctionColumnOptions:
    """The columns of a log of auctions."""

    page: Annotated[str, _column("--page", help="Page (request) of the candidate.")] = "page"
    query: Annotated[str, _column("--query", help="What the user searched for.")] = "query"
    ad: Annotated[str, _column("--ad", help="The ad; once on a page.")] = "ad"
    position: Annotated[
        str, _column("--position", help="Slot it was shown in, from 1; empty or 0: not shown.")
    ] = "position"
    clicked: Annotated[str, _column("--clicked", help="0 or 1; may be empty.")] = "clicked"
    bid: Annotated[str, _column("--bid", help="Bid for a click, from 0.")] = "bid"
    score: Annotated[
        str,
        _column("--score", help="Model in force: probability of a click at the first position."),
    ] = "score"
    candidate: Annotated[
        str | None,
        _column(
            "--candidate",
            metavar="TEXT",
            help="The same of the new model.",
            show_default="candidate, where the log has it",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class AuctionOptions:
    """How auctions are held, clicks expected and operating points chosen."""

    mainline: Annotated[int, _auction("--mainline", min=0, max=1_000, help="Slots above.")] = 4
    sidebar: Annotated[
        int,
        _auction(
            "--sidebar",
            min=0,
            max=1_000,
            help="Slots beside; positions go on after the mainline's last.",
        ),
    ] = 5
    alpha: Annotated[
        float,
        _auction(
            "--alpha", min=0, help="Click investment power: ads rank by bid * score ** alpha."
        ),
    ] = 1.0
    reserve: Annotated[
        float | None,
        _auction(
            "--reserve",
            min=0,
            help="Least rank score to be shown.",
            show_default="as many ads a page as logged",
        ),
    ] = None
    mainline_reserve: Annotated[
        float | None,
        _auction(
            "--mainline-reserve",
            min=0,
            help="Least rank score in the mainline.",
            show_default="as many mainline ads a page as logged",
        ),
    ] = None
    curve: Annotated[
        str, _clicks("--curve", metavar="mle|naive", help="How the click curve is estimated.")
    ] = "mle"
    shrinkage: Annotated[
        float,
        _clicks(
            "--shrinkage",
            min=0,
            help="Impressions by which a rate at a position is drawn to the ad's elsewhere; 0 as"
            " in the paper.",
        ),
    ] = 20.0
    min_impressions: Annotated[
        float,
        _clicks(
            "--min-impressions", min=1, help="Impressions at a position that its own rate needs."
        ),
    ] = 1.0
    most_unseen: Annotated[
        float,
        _clicks(
            "--most-unseen",
            min=0,
            max=1,
            help="Share of slots with ads never shown for the query above which nothing is"
            " concluded.",
        ),
    ] = 0.2
    confidence: Annotated[
        float, _clicks("--confidence", min=0.5, max=0.999, help="Of intervals.")
    ] = 0.95
    alphas: Annotated[str, _sweep("--alphas", help="Which, comma-separated.")] = "0.6,0.8,1,1.3,1.6"
    loads: Annotated[
        str,
        _sweep("--loads", help="Mainline ads a page, as multiples of today's, comma-separated."),
    ] = "1"


@dataclass(frozen=True, slots=True)
class SyntheticAuctionOptions:
    """A synthetic log in place of a file."""

    demo: Annotated[
        bool,
        _demo(
            "--demo",
            help="Use a synthetic log, whose truth is known: a candidate that AUC and RIG praise"
            " and users click less.",
        ),
    ] = False
    pages: Annotated[int, _demo("--pages", min=1_000, help="Pages of that log.")] = 50_000
    seed: Annotated[int, _demo("--seed", min=0, help="Another seed is another log.")] = 1
    write: Annotated[
        Path | None,
        _demo(
            "--write",
            metavar="PATH",
            help="With --demo: save that log as a .parquet or .csv, to see what one looks like.",
            show_default=False,
        ),
    ] = None


@options.grouped
def auction(
    log: Annotated[Path | None, options.log_argument("Auctions")] = None,
    sweep: _Sweep = False,
    report: options.Report = None,
    json: options.Json = False,
    *,
    columns: AuctionColumnOptions,
    how: AuctionOptions,
    synthetic: SyntheticAuctionOptions,
) -> None:
    """Hold a log's ad auctions again with a new model: what would it earn?

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

    run_auction(log, columns, how, synthetic, sweep=sweep, report=report, as_json=json)
