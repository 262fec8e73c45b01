"""Operating points at equal ad load: what another click investment power would bring."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.auction.gsp import Auction, OperatingPoint, Ranking
from evaluation.auction.search_log import SearchLog
from evaluation.auction.simulation import (
    METRICS,
    RelativeChange,
    Simulation,
    Simulator,
    point_at_load,
    relative_change,
)


def point_in_force(
    log: SearchLog,
    ranking: Ranking,
    *,
    reserve: float | None = None,
    mainline_reserve: float | None = None,
) -> OperatingPoint:
    """The point at which the model in force, ranked, shows as many ads as the log has.

    What is given stays. A mainline reserve that is not given is matched to the mainline ads per
    page of the log; the reserve, when neither is given, to all ads per page.
    """
    if mainline_reserve is not None:
        return OperatingPoint(ranking.alpha, reserve or 0.0, mainline_reserve)
    return point_at_load(
        ranking,
        log.layout,
        log.mainline_ads_per_page,
        ads_per_page=log.ads_per_page if reserve is None else None,
        reserve=reserve or 0.0,
    )


def placement_agreement(log: SearchLog, auction: Auction) -> float:
    """Share of the logged impressions that an auction shows in the same slot; nan without any.

    Of the model in force it should be near 1. If it is not, the log was made by other scores, bids
    or settings than those given, or by rules that this auction does not know.
    """
    if not len(log.shown):
        return float("nan")
    again = np.count_nonzero(log.positions[auction.rows] == auction.slots)
    return float(again / len(log.shown))


ALPHAS = (0.6, 0.8, 1.0, 1.3, 1.6)
Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class SweptPoint:
    """One operating point of a sweep.

    load : mainline ads per page that were aimed at, as a multiple of the baseline's.
    point : alpha, and the reserves that give that load.
    metrics, level_shares : as in `Simulation`.
    changes : by metric, against the baseline.
    """

    load: float
    point: OperatingPoint
    metrics: Mapping[str, float]
    level_shares: tuple[float, float, float]
    changes: Mapping[str, RelativeChange]


def sweep_operating_points(
    log: SearchLog,
    scores: ArrayLike,
    *,
    alphas: Sequence[float] = ALPHAS,
    loads: Sequence[float] = (1.0,),
    baseline: ArrayLike | None = None,
    point: OperatingPoint | None = None,
    curve: str = "mle",
    min_impressions: float = 1.0,
    shrinkage: float = 0.0,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> list[SweptPoint]:
    """Simulate every alpha at every mainline load, against the model and settings in force.

    Without a constraint clicks are most where every ad is shown, so points are compared at equal
    mainline ads per page: the mainline reserve is chosen for that, and where the baseline has a
    reserve for the whole page, it is chosen to keep all ads per page.

    log : n candidates.
    scores : (n,) position-unbiased click probabilities in [0, 1] of the model to be swept.
    alphas : click investment powers, each at least 0.
    loads : mainline ads per page as multiples of the baseline's, each at least 0.
    baseline : (n,) scores of the model in force; None is `scores`.
    point : the operating point in force; None is matched to the log with alpha 1.
    curve, min_impressions, shrinkage : as in `simulate_auction`.
    confidence : coverage of the intervals, between 0 and 1.
    progress : called with the share of the work that is done.

    Source: Yi et al., KDD 2013 (paper 001), sections 4.6 and 6.1: simulated metrics over operating
    points. Holding the load equal is ours.

    >>> from evaluation.auction import SearchPlatform
    >>> drawn = SearchPlatform(queries=20, pages=1_000, seed=1).draw()
    >>> swept = sweep_operating_points(drawn.log, drawn.scores, alphas=[0.5, 1.0, 1.5])
    >>> [each.metrics["mainline_ads_per_page"] for each in swept]
    [3.8, 3.8, 3.8]
    >>> [each.changes["click_yield"].value > 0 for each in swept]
    [False, False, True]
    """
    simulator = Simulator.of(log, curve=curve, min_impressions=min_impressions, shrinkage=shrinkage)
    in_force = log.arranged("baseline", scores if baseline is None else baseline)
    ranking = log.ranking(in_force, 1.0 if point is None else point.alpha)
    before = simulator.run(ranking, point or point_in_force(log, ranking))
    arranged = log.arranged("scores", scores)
    return swept(simulator, before, arranged, alphas, loads, confidence, progress)


def swept(
    simulator: Simulator,
    before: Simulation,
    scores: Floats,
    alphas: Sequence[float],
    loads: Sequence[float],
    confidence: float,
    progress: Progress | None = None,
) -> list[SweptPoint]:
    """`sweep_operating_points` of arranged scores against a simulation of what is in force."""
    points: list[SweptPoint] = []
    for alpha in alphas:
        ranking = simulator.log.ranking(scores, OperatingPoint(alpha).alpha)
        for load in loads:
            point = point_at_load(
                ranking,
                simulator.log.layout,
                load * before.metrics["mainline_ads_per_page"],
                ads_per_page=before.metrics["ads_per_page"] if before.point.reserve else None,
            )
            after = simulator.run(ranking, point)
            changes = {
                name: relative_change(before, after, name, confidence=confidence)
                for name in METRICS
            }
            points.append(SweptPoint(load, point, after.metrics, after.level_shares, changes))
            if progress is not None:
                progress(len(points) / (len(alphas) * len(loads)))
    return points
