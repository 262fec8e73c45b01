"""`sirocco auction`.

The work of `sirocco auction` behind a progress bar.
A synthetic log of auctions, whose truth is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from app.cli import options
from app.cli.auction import auction_options
from app.cli.auction.tables import print_findings, show_findings
from app.cli.console import note, progress
from app.datasets.auctions import AuctionColumns, AuctionLog, read_auction_log
from app.errors import FAILED, Advance, CommandError, invocation
from app.reports.auction import auction_page
from app.reports.page import check_report, how_made, write_page
from app.results.auction import AuctionFindings
from calibrators.samples import Floats
from evaluation.auction import (
    AuctionComparison,
    DrawnSearchLog,
    OperatingPoint,
    SearchPlatform,
    SlotLayout,
    SweptPoint,
)
from evaluation.auction.click_curve import METHODS
from evaluation.auction.comparison import compared
from evaluation.auction.operating_points import ALPHAS, point_in_force, swept
from evaluation.auction.simulation import METRICS, Simulator


@dataclass(frozen=True, slots=True)
class AuctionRun:
    """How a log is simulated; fields are named after the options."""

    alpha: float
    reserve: float | None
    mainline_reserve: float | None
    curve: str
    shrinkage: float
    min_impressions: float
    most_unseen: float
    confidence: float
    alphas: Sequence[float]
    loads: Sequence[float]

    def run(
        self, given: AuctionLog, name: str, truth: DrawnSearchLog | None, *, quiet: bool
    ) -> AuctionFindings:
        """Compare the models of a log, and sweep each of them when there are alphas."""
        arranged = {model: given.log.arranged(model, p) for model, p in given.models.items()}
        points = len(self.alphas) * len(self.loads)
        total = 1 + len(arranged) * (1 + points)
        with progress("holding auctions", total, "runs", shown=not quiet) as advance:
            simulator = Simulator.of(
                given.log,
                curve=self.curve,
                min_impressions=self.min_impressions,
                shrinkage=self.shrinkage,
            )
            advance("")
            comparison = self._compared(simulator, arranged, advance)
            sweep = self._swept(comparison, arranged, advance) if points else {}
        true_changes = {} if truth is None else _true_changes(truth, comparison)
        return AuctionFindings(name, comparison, arranged, sweep, self.confidence, true_changes)

    def _compared(
        self, simulator: Simulator, models: Mapping[str, Floats], advance: Advance
    ) -> AuctionComparison:
        return compared(
            simulator,
            models,
            self._point(simulator, models["baseline"]),
            self.confidence,
            self.most_unseen,
            lambda _: advance(""),
        )

    def _point(self, simulator: Simulator, in_force: Floats) -> OperatingPoint:
        if self.mainline_reserve is not None:
            return OperatingPoint(self.alpha, self.reserve or 0.0, self.mainline_reserve)
        log = simulator.log
        return point_in_force(log, log.ranking(in_force, self.alpha), reserve=self.reserve)

    def _swept(
        self, comparison: AuctionComparison, models: Mapping[str, Floats], advance: Advance
    ) -> dict[str, list[SweptPoint]]:
        return {
            model: swept(
                comparison.simulator,
                comparison.baseline.simulation,
                scores,
                self.alphas,
                self.loads,
                self.confidence,
                lambda _: advance(""),
            )
            for model, scores in models.items()
        }


def _true_changes(truth: DrawnSearchLog, comparison: AuctionComparison) -> dict[str, float]:
    before, after = (
        truth.true_metrics(model.simulation.auction) for model in comparison.models.values()
    )
    return {name: after[name] / before[name] - 1.0 for name in METRICS}


PAGES_PER_QUERY = 100
DEMO_CANDIDATE = "sharper_head"
_BASELINE = "baseline"
_WRITERS = {".parquet": pyarrow.parquet.write_table, ".csv": pyarrow.csv.write_csv}


def drawn_log(pages: int, seed: int) -> DrawnSearchLog:
    """Pages of the synthetic search engine, a query for every hundred."""
    return SearchPlatform(max(pages // PAGES_PER_QUERY, 1), pages=pages, seed=seed).draw()


def demo_models(drawn: DrawnSearchLog) -> AuctionLog:
    """The log as `sirocco auction` would read it."""
    models = {"baseline": drawn.scores, "candidate": drawn.models[DEMO_CANDIDATE]}
    return AuctionLog(drawn.log, models)


def check_writable(path: Path) -> None:
    """A `CommandError` when no log can be written at `path`."""
    if path.suffix.lower() not in _WRITERS:
        raise CommandError(f"{path}: --write makes a {' or a '.join(_WRITERS)}")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")


def write_log(drawn: DrawnSearchLog, path: Path) -> int:
    """Save the log under the default names of columns; returns the number of rows."""
    log = drawn.log
    others = {name: scores for name, scores in drawn.models.items() if name != _BASELINE}
    table = pa.table(
        {
            "page": log.pages,
            "query": log.queries,
            "ad": log.ads,
            "position": pa.array(log.positions, mask=log.positions == 0),
            "clicked": log.clicks.astype(np.int8),
            "bid": log.bids,
            "score": drawn.scores,
            "candidate": others.pop(DEMO_CANDIDATE),
            **others,
        }
    )
    try:
        _WRITERS[path.suffix.lower()](table, path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error
    return int(table.num_rows)


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
