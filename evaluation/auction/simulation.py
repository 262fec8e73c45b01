"""What a log's pages would have earned with other scores or another operating point."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrators.samples import Floats, sum_at
from evaluation.auction.click_estimates import ClickEstimates, ClickHistory
from evaluation.auction.gsp import POINT, Auction, OperatingPoint, Ranking, SlotLayout, held_auction
from evaluation.auction.search_log import SearchLog


def point_at_load(
    ranking: Ranking,
    layout: SlotLayout,
    mainline_ads_per_page: float,
    *,
    ads_per_page: float | None = None,
    reserve: float = 0.0,
) -> OperatingPoint:
    """The operating point at which ranked ads fill the mainline as often as wanted.

    The mainline of a page holds those of its first ads that reach the mainline reserve, so the
    reserve is the quantile of those ads' rank scores that leaves the wanted number of them, exactly
    but for ties. When even a reserve of 0 leaves too few, it is 0. With `ads_per_page` the
    reserve of the whole page is found in the same way, else it is `reserve`.
    """
    able = ranking.rank_scores >= reserve
    first = able & (ranking.ranks < layout.mainline)
    wanted = mainline_ads_per_page * ranking.n_pages
    mainline_reserve = _threshold(ranking.rank_scores[first], wanted)
    if ads_per_page is not None:
        above = first & (ranking.rank_scores >= mainline_reserve)
        in_mainline = np.bincount(ranking.pages[above], minlength=ranking.n_pages)
        fitting = able & (ranking.ranks < in_mainline[ranking.pages] + layout.sidebar)
        fitting |= above
        reserve = _threshold(ranking.rank_scores[fitting], ads_per_page * ranking.n_pages)
        reserve = min(reserve, mainline_reserve) if mainline_reserve else reserve
    return OperatingPoint(ranking.alpha, reserve, mainline_reserve)


def _threshold(rank_scores: Floats, wanted: float) -> float:
    """The least rank score that leaves as nearly as possible the wanted number."""
    if not len(rank_scores):
        return 0.0
    count = round(wanted)
    if count >= len(rank_scores):
        return 0.0
    if count <= 0:
        return float(np.nextafter(rank_scores.max(), np.inf))
    value = float(np.partition(rank_scores, -count)[-count])
    reach, beyond = np.sum(rank_scores >= value), np.sum(rank_scores > value)
    if count - beyond < reach - count:
        return float(np.nextafter(value, np.inf))
    return value


CLICK_METRICS = ("click_yield", "mainline_click_yield", "revenue_per_mille")
LOAD_METRICS = ("ads_per_page", "mainline_ads_per_page")
METRICS = CLICK_METRICS + LOAD_METRICS
_PER_MILLE = 1_000.0


def click_values(auction: Auction) -> dict[str, Floats]:
    """What a click in each slot, (k,), counts in each of the metrics of clicks."""
    above = auction.in_mainline.astype(np.float64)
    values = (np.ones(len(above)), above, _PER_MILLE * auction.cpcs)
    return dict(zip(CLICK_METRICS, values, strict=True))


def load_values(auction: Auction) -> dict[str, Floats]:
    """What each slot, (k,), counts in each of the metrics of load."""
    above = auction.in_mainline.astype(np.float64)
    return dict(zip(LOAD_METRICS, (np.ones(len(above)), above), strict=True))


def page_sums(auction: Auction, values: Floats) -> Floats:
    """Sum of the slots' values, (k,), over each page, (n_pages,)."""
    return sum_at(auction.pages.astype(np.int64), values, auction.n_pages)


def page_mean(values: Floats) -> float:
    """Mean over pages; nan without pages."""
    return float(values.mean()) if len(values) else float("nan")


def metrics_at(auction: Auction, rates: Floats) -> dict[str, float]:
    """Every metric of an auction whose slots are clicked at known rates, (k,)."""
    values = {name: each * rates for name, each in click_values(auction).items()}
    values |= load_values(auction)
    return {name: page_mean(page_sums(auction, each)) for name, each in values.items()}


@dataclass(frozen=True, eq=False)
class Simulation:
    """The simulated metrics of one model at one operating point.

    point : the operating point.
    auction : who is shown where and pays what.
    metrics : by name, means over pages: `click_yield` and `mainline_click_yield` (expected clicks),
        `revenue_per_mille` (CPC times expected clicks, of 1,000 pages), `ads_per_page` and
        `mainline_ads_per_page`.
    level_shares : share of the slots answered from the log at level 1, 2 and 3.
    guessed_share : share of the expected clicks that are of level 3, where the log says nothing of
        the ad; nan without clicks. So much of the click yield is a guess, and a kind one.
    page_values : by name, (n_pages,): what each page contributes to the metric, through the slots
        it fills and through the clicks it has logged. Their mean is the metric, their spread its
        uncertainty.
    """

    point: OperatingPoint
    auction: Auction
    metrics: Mapping[str, float]
    level_shares: tuple[float, float, float]
    guessed_share: float
    page_values: Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class Simulator:
    """A log and its click history, ready to be simulated with any scores.

    log : the log.
    history : its click rates.
    min_impressions : impressions that a cell needs to be believed, at least 1.
    shrinkage : impressions by which a cell's rate is drawn to what its pair has elsewhere.
    """

    log: SearchLog
    history: ClickHistory
    min_impressions: float = 1.0
    shrinkage: float = 0.0

    @classmethod
    def of(
        cls,
        log: SearchLog,
        *,
        curve: str = "mle",
        min_impressions: float = 1.0,
        shrinkage: float = 0.0,
    ) -> Self:
        """Count the clicks of a log and estimate its click curve; options as in
        `simulate_auction`."""
        if not min_impressions >= 1.0:
            raise ValueError(f"min_impressions = {min_impressions}: must be at least 1")
        if not 0.0 <= shrinkage < np.inf:
            raise ValueError(f"shrinkage = {shrinkage}: must be at least 0, finite")
        return cls(log, ClickHistory.of(log, curve), min_impressions, shrinkage)

    def run(self, ranking: Ranking, point: OperatingPoint) -> Simulation:
        """Simulate ranked ads; `point.alpha` is that of the ranking."""
        auction = held_auction(ranking, self.log.layout, point)
        estimates = ClickEstimates(self.history, auction, self.min_impressions, self.shrinkage)
        pages = {name: page_sums(auction, each) for name, each in load_values(auction).items()}
        for name, values in click_values(auction).items():
            noise = estimates.page_noise(self.log, values)
            # Shrinkage leaves the noise a mean of its own.
            noise -= page_mean(noise)
            pages[name] = page_sums(auction, values * estimates.rates) + noise
        metrics = {name: page_mean(pages[name]) for name in METRICS}
        shares, guessed = estimates.level_shares, estimates.guessed_share
        return Simulation(point, auction, metrics, shares, guessed, pages)


def simulate_auction(
    log: SearchLog,
    scores: ArrayLike,
    *,
    point: OperatingPoint = POINT,
    curve: str = "mle",
    min_impressions: float = 1.0,
    shrinkage: float = 0.0,
) -> Simulation:
    """Run the auctions of a log again with these scores, and expect clicks as it has seen them.

    Every slot of the simulated pages gets an expected click rate from the log: (1) the rate of its
    query and ad at that position; (2) where they were shown at other positions only, their clicks
    over their impressions there, weighted by the click curve, times the curve at this position;
    (3) where they were never shown together, the rate of the position over all ads, which
    flatters a model that digs up new ads. A position that the log never filled takes the nearest
    filled one and counts as level 3.

    log : n candidates.
    scores : (n,) position-unbiased click probabilities in [0, 1], rows as given to the log.
    point : alpha and the reserves.
    curve : "mle" or "naive", see `click_curve`.
    min_impressions : impressions that level 1 asks for, at least 1.
    shrinkage : k at least 0: level 1 is (clicks + k * level 2) / (impressions + k).

    Source: Yi et al., KDD 2013 (paper 001), section 4.6.

    One query, two ads, three pages: what would each ad bring at the top?

    >>> from evaluation.auction.gsp import SlotLayout
    >>> log = SearchLog.of(
    ...     pages=[0, 0, 1, 1, 2, 2], queries=[0] * 6, ads=[0, 1] * 3,
    ...     positions=[1, 2, 1, 2, 2, 1], clicks=[0, 1, 0, 0, 0, 1], bids=[1.0] * 6,
    ...     layout=SlotLayout(2, 0),
    ... )
    >>> simulate_auction(log, [0.9, 0.1] * 3).metrics["click_yield"]
    0.5
    >>> simulate_auction(log, [0.1, 0.9] * 3).metrics["click_yield"]
    1.0
    """
    simulator = Simulator.of(log, curve=curve, min_impressions=min_impressions, shrinkage=shrinkage)
    return simulator.run(log.ranking(log.arranged("scores", scores), point.alpha), point)


@dataclass(frozen=True, slots=True)
class RelativeChange:
    """A metric's change against the baseline's, as a share of it: 0.1 is 10 % more.

    value : the change; nan where the baseline has 0.
    standard_error : of the change.
    lower, upper : its confidence interval.
    """

    value: float
    standard_error: float
    lower: float
    upper: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.lower > 0.0 or self.upper < 0.0


def relative_change(
    baseline: Simulation, candidate: Simulation, metric: str, *, confidence: float = 0.95
) -> RelativeChange:
    """Change of one metric from the baseline to the candidate, simulated on the same log.

    The interval is the delta method for a ratio of two means with pages as the units. A page
    enters with the slots it fills and with the clicks it logged, so the noise in the
    log's click rates is part of it, and what both simulations share cancels. The click curve is
    taken as known, and so is what level 3 assumes: the interval does not cover that bias.

    baseline, candidate : simulations of one log.
    metric : a name of `Simulation.metrics`.
    confidence : coverage of the interval, between 0 and 1.

    Raises ValueError when the confidence is not between 0 and 1.

    Source: Yi et al., KDD 2013 (paper 001), section 6: changes relative to the baseline. The
    interval is ours.

    >>> from evaluation.auction.search_platform import SearchPlatform
    >>> from evaluation.auction.simulation import simulate_auction
    >>> drawn = SearchPlatform(queries=50, pages=2_000, seed=1).draw()
    >>> before = simulate_auction(drawn.log, drawn.scores)
    >>> change = relative_change(before, simulate_auction(drawn.log, drawn.truth), "click_yield")
    >>> change.lower < change.value < change.upper
    True
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
    before, after = baseline.metrics[metric], candidate.metrics[metric]
    if not before > 0.0:
        return RelativeChange(*(float("nan"),) * 4)
    ratio = after / before
    error = _standard_error(
        baseline.page_values[metric] - before, candidate.page_values[metric] - after, ratio, before
    )
    reach = float(ndtri(0.5 + confidence / 2.0)) * error
    change = ratio - 1.0
    return RelativeChange(change, error, change - reach, change + reach)


def _standard_error(before: Floats, after: Floats, ratio: float, mean: float) -> float:
    n = len(before)
    if n < 2:
        return float("nan")
    spread = float(np.std(after - ratio * before, ddof=1))
    return spread / (mean * sqrt(n))


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

    >>> from evaluation.auction.search_platform import SearchPlatform
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
