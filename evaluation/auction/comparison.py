"""Models side by side: what they would earn, beside what offline metrics say of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.auction.conclusion import MOST_UNSEEN, Conclusion, conclusion
from evaluation.auction.logged_scores import logged_scores
from evaluation.auction.operating_point import OperatingPoint
from evaluation.auction.operating_sweep import Progress
from evaluation.auction.page_metrics import METRICS
from evaluation.auction.point_in_force import placement_agreement, point_in_force
from evaluation.auction.relative_change import RelativeChange, relative_change
from evaluation.auction.search_log import SearchLog
from evaluation.auction.simulation import Simulation, Simulator


@dataclass(frozen=True, slots=True, eq=False)
class JudgedModel:
    """One model on a log.

    Attributes
    ----------
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

    Attributes
    ----------
    models : by name.
    agreement : share of the logged impressions that the first model, simulated, shows in the same
        slot. Near 1, or the log was made with other scores or settings than those given.
    simulator : the log and its click history, for further simulations.
    """

    models: Mapping[str, JudgedModel]
    agreement: float
    simulator: Simulator

    @property
    def baseline(self) -> JudgedModel:
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

    The two may contradict each other: AUC and RIG judge the ads that the model in force chose to
    show, the simulation those that the candidate would choose.

    Parameters
    ----------
    log : n candidates.
    scores : by model's name, (n,) position-unbiased click probabilities in [0, 1]; the first is the
        model in force, with which the others are compared.
    point : alpha and the reserves of all models; None is matched to the log with alpha 1.
    curve, min_impressions, shrinkage : as in `simulate_auction`.
    confidence : coverage of the intervals, between 0 and 1.
    most_unseen : share of slots at level 3 above which nothing is concluded.
    progress : called with the share of the work that is done.

    Raises
    ------
    ValueError
        When there are no scores, lengths differ or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 6, tables 5 and 6.

    Examples
    --------
    Better by AUC and RIG, and worse for the users:

    >>> from evaluation.auction import SearchPlatform
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
    log, models = simulator.log, dict[str, JudgedModel]()
    for name, each in scores.items():
        ranking = log.ranking(each, 1.0 if point is None else point.alpha)
        point = point or point_in_force(log, ranking)
        after = simulator.run(ranking, point)
        before = next(iter(models.values())).simulation if models else None
        offline = logged_scores(log, each, simulator.history.curve)
        models[name] = _judged(before, after, offline, confidence, most_unseen)
        if progress is not None:
            progress(len(models) / len(scores))
    first = next(iter(models.values())).simulation
    return AuctionComparison(models, placement_agreement(log, first.auction), simulator)


def _judged(
    before: Simulation | None,
    after: Simulation,
    offline: Mapping[str, float],
    confidence: float,
    most_unseen: float,
) -> JudgedModel:
    if before is None:
        return JudgedModel(after, offline, {}, None)
    changes = {
        name: relative_change(before, after, name, confidence=confidence) for name in METRICS
    }
    return JudgedModel(after, offline, changes, conclusion(before, after, changes, most_unseen))
