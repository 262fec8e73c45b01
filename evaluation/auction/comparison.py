"""Models side by side: what they would earn, beside what offline metrics say of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.auction.click_curve import ClickCurve
from evaluation.auction.gsp import OperatingPoint
from evaluation.auction.search_log import SearchLog
from evaluation.auction.simulation import (
    METRICS,
    Progress,
    RelativeChange,
    Simulation,
    Simulator,
    placement_agreement,
    point_in_force,
    relative_change,
)
from evaluation.metrics.auc import auc_of
from evaluation.metrics.calibration import log_loss_of, pcoc_of, rig_of
from evaluation.metrics.predictions import Predictions

MOST_UNSEEN = 0.2
"""Share of slots at level 3 above which a simulation is a guess."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Whether a simulation may be believed, and what it says.

    conclusive : False when nothing may be concluded.
    sentence : the conclusion, or why there is none.
    """

    conclusive: bool
    sentence: str


def conclusion(
    baseline: Simulation,
    candidate: Simulation,
    changes: Mapping[str, RelativeChange],
    most_unseen: float = MOST_UNSEEN,
) -> Conclusion:
    """What the changes from baseline to candidate mean.

    Nothing, when more than `most_unseen` of the slots of either are filled from level 3: there the
    log never showed the ad for the query, and its rate is a guess that flatters.
    """
    unseen = max(baseline.level_shares[2], candidate.level_shares[2])
    if unseen > most_unseen:
        return Conclusion(
            False,
            f"Do not conclude: in {unseen:.0%} of the simulated slots stands an ad that the log"
            f" never showed for the query, more than {most_unseen:.0%}. Its clicks are a guess."
            " Let the candidate choose on a small share of pages first, and simulate on their log.",
        )
    clicks = changes["click_yield"]
    if isnan(clicks.value):
        return Conclusion(False, "Do not conclude: the baseline has no clicks to compare with.")
    if isnan(clicks.lower):
        return Conclusion(False, "Do not conclude: of one page there is no interval.")
    return Conclusion(True, f"{_what(clicks)}: {_listed(changes)}.")


def _what(clicks: RelativeChange) -> str:
    if not clicks.is_clear:
        return "No clear difference in clicks"
    return "More clicks" if clicks.value > 0.0 else "Fewer clicks"


def _listed(changes: Mapping[str, RelativeChange]) -> str:
    names = {
        "click_yield": "per page",
        "mainline_click_yield": "in the mainline",
        "revenue_per_mille": "revenue",
    }
    return ", ".join(f"{text} {_shown(changes[name])}" for name, text in names.items())


def _shown(change: RelativeChange) -> str:
    if isnan(change.value):
        return "-"
    return f"{change.value:+.1%} ({change.lower:+.1%} to {change.upper:+.1%})"


OFFLINE_METRICS = ("n", "positives", "pcoc", "log_loss", "auc", "mainline_auc", "rig")


def logged_predictions(log: SearchLog, scores: Floats, curve: ClickCurve) -> Predictions:
    """Impressions of the log, (shown,), with arranged scores times the click curve.

    A position-unbiased score predicts clicks at the first position; what it predicts where the ad
    stood is that times the factor of the position, at most 1.
    """
    shown = log.shown
    factors = curve.factors[log.positions[shown] - 1]
    # Without a click in the whole log there is no curve, and the scores stand as they are.
    predicted = np.minimum(scores[shown] * np.nan_to_num(factors, nan=1.0), 1.0)
    return Predictions.check(predicted, log.clicks[shown].astype(np.float64), None)


def logged_scores(log: SearchLog, scores: Floats, curve: ClickCurve) -> dict[str, float]:
    """What a model is evaluated by before it is shown to anyone: on the logged impressions.

    Impressions and clicks (`n`, `positives`), PCOC, log loss, AUC (of all and of the mainline) and
    RIG of arranged scores times the click curve.
    """
    all_shown = logged_predictions(log, scores, curve)
    above = log.positions[log.shown] <= log.layout.mainline
    values = (
        all_shown.weights.sum(),
        all_shown.positives.sum(),
        pcoc_of(all_shown),
        log_loss_of(all_shown),
        auc_of(all_shown),
        auc_of(all_shown.select(above)),
        rig_of(all_shown),
    )
    return {name: float(value) for name, value in zip(OFFLINE_METRICS, values, strict=True)}


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedModel:
    """One model on a log.

    simulation : its auctions at the operating point in force.
    offline : `n`, `positives`, `pcoc`, `log_loss`, `auc`, `mainline_auc` and `rig` on the logged
        impressions, with scores times the click curve.
    changes : by simulated metric, against the first model; empty for that one.
    conclusion : what the changes mean; None for the first model.
    """

    simulation: Simulation
    offline: Mapping[str, float]
    changes: Mapping[str, RelativeChange]
    conclusion: Conclusion | None


@dataclass(frozen=True, slots=True, eq=False)
class AuctionComparison:
    """Models on one log; the first is the one in force.

    models : by name.
    agreement : share of the logged impressions that the first model, simulated, shows in the same
        slot. Near 1, or the log was made with other scores or settings than those given.
    simulator : the log and its click history, for further simulations.
    """

    models: Mapping[str, SimulatedModel]
    agreement: float
    simulator: Simulator

    @property
    def baseline(self) -> SimulatedModel:
        """The model in force."""
        return next(iter(self.models.values()))


def compare_auctions(
    log: SearchLog,
    scores: Mapping[str, ArrayLike],
    *,
    point: OperatingPoint | None = None,
    curve: str = "mle",
    min_impressions: float = 1.0,
    shrinkage: float = 0.0,
    confidence: float = 0.95,
    most_unseen: float = MOST_UNSEEN,
    progress: Progress | None = None,
) -> AuctionComparison:
    """Simulate models on a log at one operating point, and set their offline metrics beside it.

    The two may contradict each other: AUC and RIG speak of the ads that the model in force chose to
    show, the simulation those that the candidate would choose.

    log : n candidates.
    scores : by model's name, (n,) position-unbiased click probabilities in [0, 1]; the first is the
        model in force, with which the others are compared.
    point : alpha and the reserves of all models; None is matched to the log with alpha 1.
    curve, min_impressions, shrinkage : as in `simulate_auction`.
    confidence : coverage of the intervals, between 0 and 1.
    most_unseen : share of slots at level 3 above which nothing is concluded.
    progress : called with the share of the work that is done.

    Raises ValueError when there are no scores, lengths differ or a value breaks its rule; it is
    named.

    Source: Yi et al., KDD 2013 (paper 001), section 6, tables 5 and 6.

    Better by AUC and RIG, and worse for the users:

    >>> from evaluation.auction.search_platform import SearchPlatform
    >>> drawn = SearchPlatform(queries=40, pages=4_000, seed=1).draw()
    >>> names = ("baseline", "sharper_head")
    >>> found = compare_auctions(drawn.log, {name: drawn.models[name] for name in names})
    >>> before, after = found.models.values()
    >>> after.offline["auc"] > before.offline["auc"], after.offline["rig"] > before.offline["rig"]
    (True, True)
    >>> after.changes["click_yield"].upper < 0
    True
    """
    if not scores:
        raise ValueError("scores = {}: give those of one model at least")
    arranged = {name: log.arranged(name, each) for name, each in scores.items()}
    simulator = Simulator.of(log, curve=curve, min_impressions=min_impressions, shrinkage=shrinkage)
    return compared(simulator, arranged, point, confidence, most_unseen, progress)


def compared(
    simulator: Simulator,
    scores: Mapping[str, Floats],
    point: OperatingPoint | None,
    confidence: float,
    most_unseen: float,
    progress: Progress | None = None,
) -> AuctionComparison:
    """`compare_auctions` of arranged scores."""
    log, models = simulator.log, dict[str, SimulatedModel]()
    for name, each in scores.items():
        ranking = log.ranking(each, 1.0 if point is None else point.alpha)
        point = point or point_in_force(log, ranking)
        after = simulator.run(ranking, point)
        before = next(iter(models.values())).simulation if models else None
        offline = logged_scores(log, each, simulator.history.curve)
        models[name] = _against(before, after, offline, confidence, most_unseen)
        if progress is not None:
            progress(len(models) / len(scores))
    first = next(iter(models.values())).simulation
    return AuctionComparison(models, placement_agreement(log, first.auction), simulator)


def _against(
    before: Simulation | None,
    after: Simulation,
    offline: Mapping[str, float],
    confidence: float,
    most_unseen: float,
) -> SimulatedModel:
    if before is None:
        return SimulatedModel(after, offline, {}, None)
    changes = {
        name: relative_change(before, after, name, confidence=confidence) for name in METRICS
    }
    return SimulatedModel(after, offline, changes, conclusion(before, after, changes, most_unseen))
