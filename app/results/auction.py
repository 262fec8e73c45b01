"""What `sirocco auction` found on a log: conclusion, warnings, and the rows of its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan

import numpy as np

from app.results.formatting import shown
from calibrators.samples import Floats
from evaluation.auction.comparison import AuctionComparison, SimulatedModel
from evaluation.auction.search_log import SearchLog
from evaluation.auction.simulation import CLICK_METRICS, RelativeChange, SweptPoint

CLEAR_AGREEMENT = 0.9
_ENOUGH_CLICKS = 100


@dataclass(frozen=True, slots=True, eq=False)
class AuctionFindings:
    """Models compared on a log.

    name : of the log.
    comparison : the models at the operating point in force.
    models : by name, the scores, (n,) in the order of the log held by the comparison.
    sweep : by model, other operating points; empty when none were wanted.
    confidence : coverage of the intervals.
    truth : by metric, the true change of the candidate, where the log is synthetic.
    """

    name: str
    comparison: AuctionComparison
    models: Mapping[str, Floats]
    sweep: Mapping[str, Sequence[SweptPoint]]
    confidence: float
    truth: Mapping[str, float] = field(default_factory=dict)

    @property
    def log(self) -> SearchLog:
        """The log."""
        return self.comparison.simulator.log

    @property
    def candidate(self) -> SimulatedModel | None:
        """The model compared with the one in force, where there is one."""
        return self.comparison.models.get("candidate")

    @property
    def conclusion(self) -> str:
        """What the simulation says of the candidate, in words."""
        candidate = self.candidate
        if candidate is None or candidate.conclusion is None:
            return "The log has scores of one model: give another with --candidate to compare them."
        return candidate.conclusion.sentence + self._contrast(candidate)

    def _contrast(self, candidate: SimulatedModel) -> str:
        """Whether the offline metrics say the opposite."""
        before, after = self.comparison.baseline.offline, candidate.offline
        clicks = candidate.changes["click_yield"]
        signs = {np.sign(after[name] - before[name]) for name in ("auc", "rig")}
        if not (clicks.is_clear and signs == {-np.sign(clicks.value)}):
            return ""
        went = "rose" if clicks.value < 0.0 else "fell"
        return f" AUC and RIG {went}: they see only what the model in force chose to show."

    @property
    def warnings(self) -> list[str]:
        """Why the numbers may mislead."""
        log, curve = self.log, self.comparison.simulator.history.curve
        clicks = int(curve.clicks.sum())
        beyond = np.flatnonzero(~curve.linked & (curve.clicks > 0.0)) + 1
        checks = {
            f"The model in force, simulated, repeats only {self.comparison.agreement:.0%} of the"
            " logged placements: the log was made with other scores, bids or settings than these"
            " (see --score, --alpha, --reserve, --mainline-reserve).": (
                self.comparison.agreement < CLEAR_AGREEMENT
            ),
            "Every candidate of the log was shown. A simulation can then only move and drop ads,"
            " never bring one in that lost: log the losing candidates too.": (
                len(log.shown) == len(log)
            ),
            f"The log has {clicks} clicks, too few to say much.": clicks < _ENOUGH_CLICKS,
            f"Nothing links these positions with the first: {', '.join(map(str, beyond))}. No ad"
            " was clicked and shown in both; there the click curve is the naive one.": (
                len(beyond) > 0
            ),
            "The click curve has not settled: too few ads are seen in several positions.": (
                not curve.converged
            ),
        }
        return [text for text, holds in checks.items() if holds]


HOW_TO_READ = (
    "Clicks, revenue and ads are simulated: what the logged pages would have brought, with the"
    " clicks that the log lets expect. AUC, RIG and PCOC are of the impressions of the log, scores"
    " times the click curve. Seen here: slots whose ad the log showed for the query at that"
    " position; elsewhere: at another one; never: not at all. The clicks of those are guessed from"
    " the position, mostly too many, and the intervals do not cover that."
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


def rows_of(findings: AuctionFindings) -> list[list[str]]:
    """The cells of the table of models: heading, a cell for each model, change and interval."""
    models = [*findings.comparison.models.values()]
    blank = [""] * 2 if len(models) > 1 else []
    rows: list[list[str]] = []
    for name, (heading, form) in SIMULATED.items():
        cells = [shown(model.simulation.metrics[name], form) for model in models]
        candidate = findings.candidate
        change = () if candidate is None else change_text(candidate.changes[name])
        rows.append([heading, *cells, *change])
    for name, (heading, form) in OFFLINE.items():
        cells = [shown(model.offline[name], form) for model in models]
        told = [] if len(models) == 1 else [_offline_change(models, name), ""]
        rows.append([heading, *cells, *told])
    for level, heading in enumerate(LEVELS):
        cells = [shown(model.simulation.level_shares[level], ".1%") for model in models]
        rows.append([f"slots {heading}", *cells, *blank])
    cells = [shown(model.simulation.guessed_share, ".1%") for model in models]
    rows.append(["clicks guessed", *cells, *blank])
    return rows


def change_text(change: RelativeChange) -> tuple[str, str]:
    """A change and its interval."""
    if isnan(change.value):
        return "-", ""
    if isnan(change.lower):
        return f"{change.value:+.1%}", "-"
    return f"{change.value:+.1%}", f"{change.lower:+.1%} to {change.upper:+.1%}"


def _offline_change(models: Sequence[SimulatedModel], name: str) -> str:
    before, after = (model.offline[name] for model in models)
    if isnan(before) or isnan(after) or before == 0.0 or name == "pcoc":
        return ""
    return f"{(after - before) / abs(before):+.1%}"


def sweep_cells(swept: SweptPoint) -> list[str]:
    """Alpha, load, mainline reserve, three changes and the share at level 3."""
    changes = (change_text(swept.changes[name])[0] for name in CLICK_METRICS)
    settings = (f"{swept.point.alpha:g}", f"{swept.load:g}", f"{swept.point.mainline_reserve:.4g}")
    return [*settings, *changes, shown(swept.level_shares[2], ".1%")]


def truth_text(truth: Mapping[str, float]) -> str:
    """What would really happen, in one sentence."""
    return (
        "What would really happen, as only a synthetic log can tell: clicks a page"
        f" {truth['click_yield']:+.1%}, in the mainline {truth['mainline_click_yield']:+.1%},"
        f" revenue {truth['revenue_per_mille']:+.1%}."
    )
