"""What `sirocco auction` runs and prints: models side by side, operating points, JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.cli.console import (
    note,
    note_files,
    note_skipped,
    numbers_table,
    plain,
    print_json,
    print_line,
    print_table,
    progress,
)
from app.cli.options import ReadingOptions, refuse
from app.cli.simulations import (
    ALPHAS,
    LOADS,
    AuctionColumnOptions,
    AuctionOptions,
    SyntheticAuctionOptions,
)
from app.datasets.auctions import (
    AuctionColumns,
    AuctionLog,
    check_writable,
    demo_models,
    drawn_log,
    read_auction_log,
    write_log,
)
from app.datasets.parts import name_of, refuse_inside
from app.errors import Advance, CommandError
from app.reports.auction import auction_page
from app.reports.page import check_report, write_page
from app.results.auction import (
    HOW_TO_READ,
    SWEPT,
    AuctionFindings,
    rows_of,
    sweep_cells,
    truth_text,
)
from calibrators.samples import Floats
from evaluation.auction.click_curve import METHODS
from evaluation.auction.comparison import AuctionComparison, SimulatedModel, compared
from evaluation.auction.gsp import LAYOUT, OperatingPoint, SlotLayout
from evaluation.auction.search_platform import DrawnSearchLog
from evaluation.auction.simulation import (
    METRICS,
    RelativeChange,
    Simulator,
    SweptPoint,
    point_in_force,
    swept,
)


def run_auction(
    path: str | None,
    columns: AuctionColumnOptions,
    how: AuctionOptions,
    synthetic: SyntheticAuctionOptions,
    given: ReadingOptions,
    *,
    sweep: bool,
    report: Path | None,
    as_json: bool,
) -> None:
    """Hold the auctions of a log, or of a synthetic one, and print what came of it."""
    _check(path, how, synthetic)
    check_report(report)
    refuse_inside([] if path is None else [path], {"--report": report})
    if not sweep:
        refuse({"--alphas": how.alphas, "--loads": how.loads}, "goes with --sweep only")
    alphas = _numbers("--alphas", how.alphas or ALPHAS) if sweep else ()
    run = AuctionRun(how, alphas, _numbers("--loads", how.loads or LOADS))
    if path is None:
        findings = _demo(run, synthetic, quiet=as_json)
    else:
        reading = given.reading("does not go with auctions: a row is one candidate of one page")
        log = read_auction_log(path, AuctionColumns(**asdict(columns)), _layout(how), reading)
        note_skipped(reading)
        findings = run.run(log, name_of(path), None, quiet=as_json)
    if report is not None:
        write_page(auction_page(findings), report)
    if as_json:
        print_json(findings_json(findings))
        return
    _show(findings)
    note_files(report=report)


def _check(path: str | None, how: AuctionOptions, synthetic: SyntheticAuctionOptions) -> None:
    if how.curve not in METHODS:
        raise CommandError(f"--curve {how.curve!r}: must be one of {', '.join(METHODS)}")
    if synthetic.demo == (path is not None):
        raise CommandError("give a log of auctions, or --demo for a synthetic one")
    if synthetic.write is not None and not synthetic.demo:
        raise CommandError("--write goes with --demo only")
    if synthetic.demo and (slots := _layout(how)) != LAYOUT:
        raise CommandError(
            f"--mainline {slots.mainline}, --sidebar {slots.sidebar}: go with a log only; the pages"
            f" of --demo have {LAYOUT.mainline} and {LAYOUT.sidebar} slots"
        )
    if synthetic.write is not None:
        check_writable(synthetic.write, force=synthetic.force)


def _layout(how: AuctionOptions) -> SlotLayout:
    if how.mainline + how.sidebar == 0:
        raise CommandError("--mainline 0 and --sidebar 0: a page must have a slot")
    return SlotLayout(how.mainline, how.sidebar)


def _numbers(option: str, text: str) -> Sequence[float]:
    try:
        numbers = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or not all(0.0 <= number < float("inf") for number in numbers):
        raise CommandError(f"{option} {text!r}: give numbers from 0 up, comma-separated")
    return numbers


def _demo(run: "AuctionRun", synthetic: SyntheticAuctionOptions, *, quiet: bool) -> AuctionFindings:
    drawn, path = drawn_log(synthetic.pages, synthetic.seed), synthetic.write
    if path is not None:
        rows = write_log(drawn, path)
        if not quiet:
            note(f"{path}: {rows:,} candidates. Next: sirocco auction {path} --sweep")
    return run.run(demo_models(drawn), f"Synthetic log {synthetic.seed}", drawn, quiet=quiet)


@dataclass(frozen=True, slots=True)
class AuctionRun:
    """How a log is simulated, and the operating points that are tried besides."""

    how: AuctionOptions
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
                curve=self.how.curve,
                min_impressions=self.how.min_impressions,
                shrinkage=self.how.shrinkage,
            )
            advance("")
            comparison = compared(
                simulator,
                arranged,
                self._point(simulator, arranged["baseline"]),
                self.how.confidence,
                self.how.most_unseen,
                lambda _: advance(""),
            )
            sweep = self._swept(comparison, arranged, advance) if points else {}
        true_changes = {} if truth is None else _true_changes(truth, comparison)
        return AuctionFindings(name, comparison, arranged, sweep, self.how.confidence, true_changes)

    def _point(self, simulator: Simulator, in_force: Floats) -> OperatingPoint:
        log, how = simulator.log, self.how
        ranking = log.ranking(in_force, how.alpha)
        return point_in_force(
            log, ranking, reserve=how.reserve, mainline_reserve=how.mainline_reserve
        )

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
                self.how.confidence,
                lambda _: advance(""),
            )
            for model, scores in models.items()
        }


def _true_changes(truth: DrawnSearchLog, comparison: AuctionComparison) -> dict[str, float]:
    before, after = (
        truth.true_metrics(model.simulation.auction) for model in comparison.models.values()
    )
    return {name: after[name] / before[name] - 1.0 for name in METRICS}


def _show_models(findings: AuctionFindings) -> None:
    """Print the models side by side."""
    log = findings.log
    change = ("change", f"{100 * findings.confidence:g} % interval")
    compared = () if findings.candidate is None else change
    table = numbers_table("", *findings.comparison.models, *compared)
    for row in rows_of(findings):
        table.add_row(*row)
    print_table(table, f"{findings.name}: {log.n_pages:,} pages, {len(log):,} candidates")


def _show_sweep(findings: AuctionFindings) -> None:
    """Print the operating points; the most clicks are bold."""
    points = [(model, each) for model, swept in findings.sweep.items() for each in swept]
    table = numbers_table("", *SWEPT)
    best = max(points, key=lambda point: point[1].metrics["click_yield"])[1]
    for model, each in points:
        table.add_row(plain(model), *sweep_cells(each), style="bold" if each is best else "")
    print_table(table, "Operating points, against the model and settings in force")


def _show(findings: AuctionFindings) -> None:
    _show_models(findings)
    if findings.sweep:
        _show_sweep(findings)
    print_line(findings.conclusion, "bold")
    if findings.truth:
        print_line(truth_text(findings.truth))
    note(f"\n{HOW_TO_READ}")
    for warning in findings.warnings:
        note(f"Careful: {warning}")


def findings_json(findings: AuctionFindings) -> dict[str, Any]:
    """`{"rows": {model: {column: number}}, ...}`; an undefined number is null."""
    comparison = findings.comparison
    curve, candidate = comparison.simulator.history.curve, findings.candidate
    conclusion = None if candidate is None else candidate.conclusion
    return {
        "rows": {name: _row(model) for name, model in comparison.models.items()},
        "conclusive": None if conclusion is None else conclusion.conclusive,
        "verdict": findings.conclusion,
        "warnings": findings.warnings,
        "pages": findings.log.n_pages,
        "candidates": len(findings.log),
        "point": asdict(comparison.baseline.simulation.point),
        "agreement": comparison.agreement,
        "click_curve": {
            "factors": curve.factors.tolist(),
            "naive": curve.naive_factors.tolist(),
            "linked": curve.linked.tolist(),
        },
        "sweep": [_point(model, each) for model, swept in findings.sweep.items() for each in swept],
        "truth": {f"{name}_change": value for name, value in findings.truth.items()},
    }


def _row(model: SimulatedModel) -> dict[str, float]:
    levels = {f"level_{n}": share for n, share in enumerate(model.simulation.level_shares, 1)}
    columns = {**levels, "guessed_clicks": model.simulation.guessed_share}
    return {**model.offline, **model.simulation.metrics, **columns, **_changes(model.changes)}


def _point(model: str, swept: SweptPoint) -> dict[str, Any]:
    levels = {f"level_{n}": share for n, share in enumerate(swept.level_shares, 1)}
    settings = {"model": model, "load": swept.load, **asdict(swept.point)}
    return {**settings, **swept.metrics, **levels, **_changes(swept.changes)}


def _changes(changes: Mapping[str, RelativeChange]) -> dict[str, float]:
    columns: dict[str, float] = {}
    for name, change in changes.items():
        columns[f"{name}_change"] = change.value
        columns[f"{name}_change_lower"] = change.lower
        columns[f"{name}_change_upper"] = change.upper
    return columns
