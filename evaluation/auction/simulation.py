"""What a log's pages would have earned with other scores or another operating point."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.auction.click_estimates import ClickEstimates
from evaluation.auction.click_history import ClickHistory
from evaluation.auction.gsp import POINT, Auction, held_auction
from evaluation.auction.operating_point import OperatingPoint
from evaluation.auction.page_metrics import (
    METRICS,
    click_values,
    load_values,
    page_mean,
    page_sums,
)
from evaluation.auction.ranking import Ranking
from evaluation.auction.search_log import SearchLog


@dataclass(frozen=True, eq=False)
class Simulation:
    """The simulated metrics of one model at one operating point.

    Attributes
    ----------
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

    Parameters
    ----------
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
        estimates = ClickEstimates.of(self.history, auction, self.min_impressions, self.shrinkage)
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

    Parameters
    ----------
    log : n candidates.
    scores : (n,) position-unbiased click probabilities in [0, 1], rows as given to the log.
    point : alpha and the reserves.
    curve : "mle" or "naive", see `click_curve`.
    min_impressions : impressions that level 1 asks for, at least 1.
    shrinkage : k at least 0: level 1 is (clicks + k * level 2) / (impressions + k).

    Raises
    ------
    ValueError
        When lengths differ or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 4.6.

    Examples
    --------
    One query, two ads, three pages: what would each ad bring at the top?

    >>> from evaluation.auction import SlotLayout
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
