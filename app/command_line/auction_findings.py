"""What `sirocco auction` found on a log, and what its reader must be warned of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibrators.samples import Floats
from evaluation.auction import AuctionComparison, JudgedModel, SearchLog, SweptPoint

CLEAR_AGREEMENT = 0.9
_ENOUGH_CLICKS = 100


@dataclass(frozen=True, slots=True, eq=False)
class AuctionFindings:
    """Models compared on a log.

    Attributes
    ----------
    name : of the log.
    comparison : the models at the operating point in force.
    models : by name, the scores, (n,) in the order of the log held by the comparison.
    sweep : by model, other operating points; empty when none were asked for.
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
    def candidate(self) -> JudgedModel | None:
        """The model compared with the one in force, where there is one."""
        return self.comparison.models.get("candidate")

    @property
    def verdict(self) -> str:
        """What the simulation says of the candidate, in words."""
        candidate = self.candidate
        if candidate is None or candidate.conclusion is None:
            return "The log has scores of one model: give another with --candidate to compare them."
        return candidate.conclusion.sentence + self._contrast(candidate)

    def _contrast(self, candidate: JudgedModel) -> str:
        """Whether the offline metrics say the opposite."""
        before, after = self.comparison.baseline.offline, candidate.offline
        clicks = candidate.changes["click_yield"]
        signs = {np.sign(after[name] - before[name]) for name in ("auc", "rig")}
        if not (clicks.is_clear and signs == {-np.sign(clicks.value)}):
            return ""
        went = "rose" if clicks.value < 0.0 else "fell"
        return f" AUC and RIG {went}: they judge only what the model in force chose to show."

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
