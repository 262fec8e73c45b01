"""`sirocco auction`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.command_line import auction_options, options
from app.command_line.auction_columns import AuctionColumns
from app.command_line.auction_demo import check_writable, demo_models, drawn_log, write_log
from app.command_line.auction_findings import AuctionFindings
from app.command_line.auction_json import print_findings
from app.command_line.auction_log import read_auction_log
from app.command_line.auction_run import AuctionRun
from app.command_line.auction_tables import show_findings
from app.command_line.console import note
from app.command_line.errors import CommandError
from app.command_line.invocation import invocation
from app.reports.auction_page import auction_page
from app.reports.page import check_report, how_made, write_page
from evaluation.auction import SlotLayout
from evaluation.auction.click_curve import METHODS
from evaluation.auction.operating_sweep import ALPHAS

_ALPHAS = ",".join(f"{alpha:g}" for alpha in ALPHAS)


def auction(
    log: auction_options.Log = None,
    sweep: auction_options.Sweep = False,
    report: options.Report = None,
    json: options.Json = False,
    page: auction_options.PageColumn = "page",
    query: auction_options.QueryColumn = "query",
    ad: auction_options.AdColumn = "ad",
    position: auction_options.PositionColumn = "position",
    clicked: auction_options.ClickedColumn = "clicked",
    bid: auction_options.BidColumn = "bid",
    score: auction_options.ScoreColumn = "score",
    candidate: auction_options.CandidateColumn = None,
    mainline: auction_options.Mainline = 4,
    sidebar: auction_options.Sidebar = 5,
    alpha: auction_options.Alpha = 1.0,
    reserve: auction_options.Reserve = None,
    mainline_reserve: auction_options.MainlineReserve = None,
    curve: auction_options.Curve = "mle",
    shrinkage: auction_options.Shrinkage = 20.0,
    min_impressions: auction_options.MinImpressions = 1.0,
    most_unseen: auction_options.MostUnseen = 0.2,
    confidence: auction_options.Confidence = 0.95,
    alphas: auction_options.Alphas = _ALPHAS,
    loads: auction_options.Loads = "1",
    demo: auction_options.Demo = False,
    pages: auction_options.Pages = 50_000,
    seed: auction_options.Seed = 1,
    write: auction_options.Write = None,
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
    _check(log, demo=demo, write=write, report=report, curve=curve)
    run = AuctionRun(
        alpha=alpha,
        reserve=reserve,
        mainline_reserve=mainline_reserve,
        curve=curve,
        shrinkage=shrinkage,
        min_impressions=min_impressions,
        most_unseen=most_unseen,
        confidence=confidence,
        alphas=_numbers("--alphas", alphas) if sweep else (),
        loads=_numbers("--loads", loads),
    )
    if log is None:
        findings = _demo(run, pages, seed, write, quiet=json)
    else:
        columns = AuctionColumns(page, query, ad, position, clicked, bid, score, candidate)
        read = read_auction_log(log, columns, _layout(mainline, sidebar))
        findings = run.run(read, log.name, None, quiet=json)
    _tell(findings, report, as_json=json)


def _check(
    log: Path | None, *, demo: bool, write: Path | None, report: Path | None, curve: str
) -> None:
    if curve not in METHODS:
        raise CommandError(f"--curve {curve!r}: must be one of {', '.join(METHODS)}")
    if demo == (log is not None):
        raise CommandError("give a log of auctions, or --demo for a synthetic one")
    if write is not None and not demo:
        raise CommandError("--write goes with --demo only")
    if write is not None:
        check_writable(write)
    if report is not None:
        check_report(report)


def _tell(findings: AuctionFindings, report: Path | None, *, as_json: bool) -> None:
    if report is not None:
        footer = how_made(invocation(), datetime.now(UTC))
        write_page(auction_page(findings, footer), report)
    if as_json:
        print_findings(findings)
        return
    show_findings(findings)
    if report is not None:
        note(f"Report: {report}")


def _demo(
    run: AuctionRun, pages: int, seed: int, write: Path | None, *, quiet: bool
) -> AuctionFindings:
    drawn = drawn_log(pages, seed)
    if write is not None:
        rows = write_log(drawn, write)
        if not quiet:
            note(f"{write}: {rows:,} candidates. Next: sirocco auction {write} --sweep")
    return run.run(demo_models(drawn), f"Synthetic log {seed}", drawn, quiet=quiet)


def _layout(mainline: int, sidebar: int) -> SlotLayout:
    if mainline + sidebar == 0:
        raise CommandError("--mainline 0 and --sidebar 0: a page must have a slot")
    return SlotLayout(mainline, sidebar)


def _numbers(option: str, text: str) -> Sequence[float]:
    try:
        numbers = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or not all(0.0 <= number < float("inf") for number in numbers):
        raise CommandError(f"{option} {text!r}: give numbers from 0 up, comma-separated")
    return numbers
