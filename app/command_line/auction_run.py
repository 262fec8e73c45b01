"""The work of `sirocco auction` behind a progress bar."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.command_line.auction_findings import AuctionFindings
from app.command_line.auction_log import AuctionLog
from app.command_line.progress import Advance, progress
from calibrators.samples import Floats
from evaluation.auction import AuctionComparison, DrawnSearchLog, OperatingPoint, SweptPoint
from evaluation.auction.comparison import compared
from evaluation.auction.operating_sweep import swept
from evaluation.auction.page_metrics import METRICS
from evaluation.auction.point_in_force import point_in_force
from evaluation.auction.simulation import Simulator


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
