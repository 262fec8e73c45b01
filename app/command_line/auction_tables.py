"""What `sirocco auction` prints: models side by side, operating points, JSON."""

from collections.abc import Mapping, Sequence
from math import isnan

from rich import box
from rich.table import Table
from rich.text import Text

from app.command_line.auction_findings import AuctionFindings
from app.command_line.console import note, results
from app.command_line.tables import shown
from evaluation.auction import JudgedModel, RelativeChange, SweptPoint

HOW_TO_READ = (
    "Simulated: what the logged pages would have brought, clicks expected from the log. Offline: on"
    " the impressions of the log, scores times the click curve. Seen here: slots whose ad the log"
    " showed for the query at that position; elsewhere: at another one; never: not at all. The"
    " clicks of those are guessed from the position, mostly too kindly, and no interval knows it."
)
SIMULATED = {
    "click_yield": ("clicks a page", ".4f"),
    "mainline_click_yield": ("mainline clicks", ".4f"),
    "revenue_per_mille": ("revenue of 1,000 pages", ",.2f"),
    "ads_per_page": ("ads a page", ".3f"),
    "mainline_ads_per_page": ("mainline ads", ".3f"),
}
OFFLINE = {
    "auc": ("AUC", ".4f"),
    "mainline_auc": ("mainline AUC", ".4f"),
    "rig": ("RIG", ".4f"),
    "pcoc": ("PCOC", ".3f"),
}
SWEPT = ("alpha", "load", "reserve above", "clicks", "above", "revenue", "never")
LEVELS = ("seen here", "elsewhere", "never")


def show_models(findings: AuctionFindings) -> None:
    """Print the models side by side."""
    console, log = results(), findings.log
    title = f"{findings.name}: {log.n_pages:,} pages, {len(log):,} candidates"
    console.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    models = findings.comparison.models
    for name in models:
        table.add_column(name, justify="right", no_wrap=True)
    if findings.candidate is not None:
        table.add_column("change", justify="right", no_wrap=True)
        table.add_column(f"{100 * findings.confidence:g} % interval", justify="right", no_wrap=True)
    for row in rows_of(findings):
        table.add_row(*row)
    console.print(table)


def rows_of(findings: AuctionFindings) -> list[list[str]]:
    """The cells of the table of models: heading, a cell for each model, change and interval."""
    models = [*findings.comparison.models.values()]
    blank = [""] * 2 if len(models) > 1 else []
    rows: list[list[str]] = []
    for name, (heading, form) in SIMULATED.items():
        cells = [shown(model.simulation.metrics[name], form) for model in models]
        rows.append([heading, *cells, *_change_cells(findings.candidate, name)])
    for name, (heading, form) in OFFLINE.items():
        cells = [shown(model.offline[name], form) for model in models]
        change = [] if len(models) == 1 else [_offline_change(models, name), ""]
        rows.append([heading, *cells, *change])
    for level, heading in enumerate(LEVELS):
        cells = [shown(model.simulation.level_shares[level], ".1%") for model in models]
        rows.append([f"slots {heading}", *cells, *blank])
    cells = [shown(model.simulation.guessed_share, ".1%") for model in models]
    rows.append(["clicks guessed", *cells, *blank])
    return rows


def _change_cells(candidate: JudgedModel | None, name: str) -> list[str]:
    return [] if candidate is None else [*change_text(candidate.changes[name])]


def change_text(change: RelativeChange) -> tuple[str, str]:
    """A change and its interval."""
    if isnan(change.value):
        return "-", ""
    return f"{change.value:+.1%}", f"{change.lower:+.1%} to {change.upper:+.1%}"


def _offline_change(models: Sequence[JudgedModel], name: str) -> str:
    before, after = (model.offline[name] for model in models)
    if isnan(before) or isnan(after) or before == 0.0 or name == "pcoc":
        return ""
    return f"{(after - before) / abs(before):+.1%}"


def show_sweep(findings: AuctionFindings) -> None:
    """Print the operating points; the most clicks are bold."""
    points = [(model, each) for model, swept in findings.sweep.items() for each in swept]
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in SWEPT:
        table.add_column(heading, justify="right", no_wrap=True)
    best = max(points, key=lambda point: point[1].metrics["click_yield"])[1]
    for model, each in points:
        table.add_row(model, *sweep_cells(each), style="bold" if each is best else "")
    console = results()
    console.print(Text("Operating points, against the model and settings in force", style="bold"))
    console.print(table)


def sweep_cells(swept: SweptPoint) -> list[str]:
    """Alpha, load, mainline reserve, three changes and the share at level 3."""
    changes = (
        change_text(swept.changes[name])[0]
        for name in ("click_yield", "mainline_click_yield", "revenue_per_mille")
    )
    settings = (f"{swept.point.alpha:g}", f"{swept.load:g}", f"{swept.point.mainline_reserve:.4g}")
    return [*settings, *changes, shown(swept.level_shares[2], ".1%")]


def show_findings(findings: AuctionFindings) -> None:
    """Print everything for people."""
    show_models(findings)
    if findings.sweep:
        show_sweep(findings)
    console = results()
    console.print(Text(findings.verdict, style="bold"), soft_wrap=True)
    if findings.truth:
        console.print(Text(truth_text(findings.truth)), soft_wrap=True)
    note(f"\n{HOW_TO_READ}")
    for warning in findings.warnings:
        note(f"Careful: {warning}")


def truth_text(truth: Mapping[str, float]) -> str:
    """What would really happen, in one sentence."""
    return (
        "What would really happen, as only a synthetic log can tell: clicks a page"
        f" {truth['click_yield']:+.1%}, in the mainline {truth['mainline_click_yield']:+.1%},"
        f" revenue {truth['revenue_per_mille']:+.1%}."
    )
