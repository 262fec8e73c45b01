"""A synthetic search engine: ad auctions whose true click rates are known."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.special import expit

from calibrators.samples import Floats, Integers
from evaluation.auction.gsp import Auction, OperatingPoint, Ranking, SlotLayout, held_auction
from evaluation.auction.search_log import SearchLog
from evaluation.auction.simulation import metrics_at, point_at_load

TRUE_CURVE: Final = (1.0, 0.62, 0.45, 0.36, 0.085, 0.065, 0.052, 0.043, 0.036)
"""What a position does to clicks: four in the mainline, five in the sidebar."""

LESS_NOISE, SHARPER_HEAD, TIMES_THREE = "less_noise", "sharper_head", "times_three"
BASELINE = "baseline"
_QUERY_LEVEL, _QUERY_SPREAD, _AD_SPREAD = -3.9, 0.4, 1.0
_BID_SPREAD, _BID_JITTER = 0.5, 0.3
_PAIR_NOISE, _PAGE_NOISE = 0.5, 0.3
_TRAFFIC_SKEW = 0.5
_MAINLINE_ADS = 3.8
_LESS, _SHARPER = 0.5, 0.4
_FLOOR, _CEILING = float(expit(-3.1)), 0.99


@dataclass(frozen=True, eq=False)
class DrawnSearchLog:
    """A log of the platform, and what nobody knows about a real one; (n,) by row of the log.

    log : the log.
    point : the operating point it was made at.
    models : by name, scores; `baseline` is the model that was in force.
    truth : click rate of each ad at the first position.
    curve : (positions,) the true click curve.
    """

    log: SearchLog
    point: OperatingPoint
    models: Mapping[str, Floats]
    truth: Floats
    curve: Floats

    @property
    def scores(self) -> Floats:
        """Those of the model that was in force."""
        return self.models[BASELINE]

    def true_metrics(self, auction: Auction) -> dict[str, float]:
        """What an auction over these pages would really have, in expectation."""
        rates = self.truth[auction.rows] * self.curve[auction.slots - 1]
        return metrics_at(auction, rates)


@dataclass(frozen=True)
class SearchPlatform:
    """Queries with their ads, and pages of them auctioned by a model that errs.

    Every page holds the same 14 ads of its query; 4 slots in the mainline and 5 beside. An ad's
    log-odds of a click at the first position are those of its query and its own. The score in
    force errs in log-odds, by pair of query and ad (always in the same way) and by page;
    bids differ by pair and by page. The mainline reserve leaves 3.8 of 4 mainline ads on an average
    page. The other models are

    * `less_noise`: half of the error;
    * `sharper_head`: two fifths of the error, but no score below a floor of about 4 %: it cannot
      tell poor ads apart and thinks too much of all of them, as in table 5 of the paper;
    * `times_three`: the score in force times 3, at most 0.99.

    queries, ads, pages : how many, at least 1; ads are for each query.
    seed : at least 0.

    Source: Yi et al., KDD 2013 (paper 001), sections 4.6 and 6. Its logs are not public; this is
    the smallest platform that shows what they show.

    >>> drawn = SearchPlatform(queries=20, pages=500, seed=1).draw()
    >>> len(drawn.log), drawn.log.ads_per_page, list(drawn.models)
    (7000, 8.8, ['baseline', 'less_noise', 'sharper_head', 'times_three'])
    """

    queries: int = 1_500
    ads: int = 14
    pages: int = 150_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("queries", 1), ("ads", 1), ("pages", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)}: must be at least {least}")

    def draw(self) -> DrawnSearchLog:
        """All pages, each with a query of its own draw."""
        rng = np.random.default_rng((self.seed, 1))
        traffic = np.arange(1, self.queries + 1) ** -_TRAFFIC_SKEW
        queries = rng.choice(self.queries, self.pages, p=traffic / traffic.sum())
        shape = (self.pages, self.ads)
        bids = self._profiles.bids[queries] * np.exp(_BID_JITTER * rng.standard_normal(shape))
        models = self._models(queries, rng.standard_normal(shape))
        truth, layout = expit(self._profiles.levels)[queries].ravel(), SlotLayout()
        pages = np.repeat(np.arange(self.pages, dtype=np.int32), self.ads)
        ranking = Ranking(pages, bids.ravel(), models[BASELINE], 1.0, layout, self.pages)
        point = point_at_load(ranking, layout, _MAINLINE_ADS)
        auction = held_auction(ranking, layout, point)
        curve = np.array(TRUE_CURVE)
        positions, clicks = np.zeros(len(pages), np.int32), np.zeros(len(pages), np.bool_)
        positions[auction.rows] = auction.slots
        rates = truth[auction.rows] * curve[auction.slots - 1]
        clicks[auction.rows] = rng.random(len(rates)) < rates
        log = SearchLog.of(
            pages=pages,
            queries=np.repeat(queries, self.ads),
            ads=np.tile(np.arange(self.ads), self.pages),
            positions=positions,
            clicks=clicks,
            bids=bids.ravel(),
            layout=layout,
            n_pages=self.pages,
        )
        return DrawnSearchLog(log, point, MappingProxyType(models), truth, curve)

    def _models(self, queries: Integers, page_noise: Floats) -> dict[str, Floats]:
        noise = _PAGE_NOISE * page_noise
        noise += _PAIR_NOISE * self._profiles.noise[queries]
        levels = self._profiles.levels[queries]
        baseline = expit(levels + noise).ravel()
        return {
            BASELINE: baseline,
            LESS_NOISE: expit(levels + _LESS * noise).ravel(),
            SHARPER_HEAD: np.maximum(expit(levels + _SHARPER * noise), _FLOOR).ravel(),
            TIMES_THREE: np.minimum(3.0 * baseline, _CEILING),
        }

    @cached_property
    def _profiles(self) -> "_Profiles":
        rng = np.random.default_rng((self.seed, 0))
        by_query = _QUERY_LEVEL + _QUERY_SPREAD * rng.standard_normal((self.queries, 1))
        shape = (self.queries, self.ads)
        levels = by_query + _AD_SPREAD * rng.standard_normal(shape)
        bids = np.exp(_BID_SPREAD * rng.standard_normal(shape))
        return _Profiles(levels, bids, rng.standard_normal(shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Profiles:
    """What sets pairs apart, (queries, ads) each: log-odds of a click, bid, the model's error."""

    levels: Floats
    bids: Floats
    noise: Floats
