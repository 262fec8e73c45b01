"""Synthetic input of the parts: calibration maps and scores, impressions of campaigns by the hour,
and clicks whose conversions come days late.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from app.storage.batch import EventBatch
from app.storage.event_columns import EventColumns
from app.storage.keys import SHARDS, shard_of
from calibrators import Atlas, BinsTable, CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from calibrators.samples import Floats, Integers
from evaluation import ClickPlatform, ClickStream
from pccem import Attribution, Clicks

CLICKS_SEED = 7
HOUR, DAY = 3600.0, 86_400.0
ATTRIBUTION_SECONDS = 7 * DAY
FEWEST_PER_HOUR = 1.0


@dataclass(frozen=True)
class Span:
    """About `size` clicks of whole days, as of the end of the last of them."""

    stream: ClickStream
    end: float

    @classmethod
    def of(cls, size: int, days: int) -> "Span":
        """Drawn from the synthetic platform; the same for the same arguments."""
        hours = 24 * days
        platform = ClickPlatform(
            clicks_per_hour=max(size / hours, FEWEST_PER_HOUR), seed=CLICKS_SEED
        )
        return cls(platform.hours(0, hours).stream, platform.start + hours * HOUR)

    @property
    def clicks(self) -> Clicks:
        """In order of time."""
        return self.stream.clicks

    def known(self, as_of: float) -> Attribution:
        """What `pccem.attribute` makes of all that happened by then."""
        return self.stream.attribution(window=ATTRIBUTION_SECONDS, as_of=as_of)

    @property
    def final_delays(self) -> Floats:
        """Sorted delays of all conversions there will ever be."""
        return np.sort(self.stream.delay[~np.isnan(self.stream.delay)])


KNOTS = 40
LOWEST_SCORE = 1e-4


def campaign_names(count: int) -> list[str]:
    """Names as an ad platform has them."""
    return [f"campaign-{number}" for number in range(count)]


def random_maps(count: int, seed: int) -> dict[str, CalibrationMap]:
    """Monotone maps of `count` campaigns with the same knots, as those of `pooled` have them; the
    same for the same seed."""
    atlas = random_atlas(count, seed)
    return {name: atlas.map_of(name) for name in campaign_names(count)}


def random_scores(count: int, rng: np.random.Generator) -> list[float]:
    """Log-uniform scores, as many at 0.0005 as at 0.5."""
    scores: list[float] = np.exp(rng.uniform(np.log(LOWEST_SCORE), 0.0, count)).tolist()
    return scores


def random_atlas(count: int, seed: int, *, own_knots: bool = False) -> Atlas:
    """Such maps and one of the target, without an object for each; with knots of their own, as
    those of `sir` have them."""
    rng = np.random.default_rng(seed)
    sets = 1 + count if own_knots else 1
    inner = np.exp(rng.uniform(np.log(LOWEST_SCORE), 0.0, (sets, KNOTS)))
    inner.sort(axis=1)
    knots = np.hstack((np.zeros((sets, 1)), inner, np.ones((sets, 1))))
    values = rng.random((1 + count, KNOTS + 2))
    values.sort(axis=1)
    every = np.broadcast_to(knots, values.shape).reshape(-1)
    maps = MapColumns(np.full(1 + count, KNOTS + 2), every, values.reshape(-1))
    return Atlas.of_columns(sorted(campaign_names(count)), maps, has_target_map=True)


SEED = 1
TARGET = "click"
IMPRESSIONS_PER_HOUR = 100
ZIPF = 0.7
WINDOW = 24
FIRST_HOUR = 480_000
HOURS = range(FIRST_HOUR, FIRST_HOUR + WINDOW)
LAST_HOUR = HOURS[-1]
EVENTS_OF_A_REQUEST = 1000


@dataclass(frozen=True)
class Hour:
    """The events of one hour, in the order of campaigns."""

    rows: Integers
    scores: Floats
    outcomes: Floats

    @classmethod
    def of(cls, traffic: Floats, hour: int) -> "Hour":
        """Drawn from the traffic (c,), impressions an hour; the same for the same hour."""
        rng = np.random.default_rng((SEED, hour))
        rows = np.repeat(np.arange(len(traffic)), rng.poisson(traffic))
        # The beta distribution of parameters 1 and 40, several times faster than its own draw.
        scores = -np.expm1(np.log1p(-rng.random(len(rows))) / 40.0)
        outcomes = (rng.random(len(rows)) < 1.5 * scores).astype(np.float64)
        return cls(rows, scores, outcomes)


class Platform:
    """Campaigns shard by shard; their popularity is Zipf-like."""

    def __init__(self, campaigns: int) -> None:
        self.by_traffic = campaign_names(campaigns)
        popularity = 1 / np.arange(1, campaigns + 1) ** ZIPF
        traffic = popularity / popularity.sum() * campaigns * IMPRESSIONS_PER_HOUR
        shards = np.array([shard_of(name) for name in self.by_traffic])
        order = np.argsort(shards, kind="stable")
        self._campaigns = [self.by_traffic[place] for place in order.tolist()]
        self._traffic = traffic[order]
        self._bounds = np.searchsorted(shards[order], np.arange(SHARDS + 1)).tolist()

    def tables(self, hour: int) -> list[BinsTable]:
        """The bins of an hour, a table for each shard."""
        events = Hour.of(self._traffic, hour)
        ends = np.searchsorted(events.rows, self._bounds).tolist()
        spans = zip(pairwise(self._bounds), pairwise(ends), strict=True)
        return [self._table(events, slice(*span), slice(*rows)) for span, rows in spans]

    def _table(self, events: Hour, campaigns: slice, rows: slice) -> BinsTable:
        scores = events.scores[rows]
        return BinsTable.from_columns(
            self._campaigns[campaigns],
            events.rows[rows] - campaigns.start,
            scores,
            np.ones(len(scores)),
            events.outcomes[rows],
        )

    def requests(self, hour: int) -> Iterator[EventBatch]:
        """The same events as requests bring them: campaigns mixed."""
        events = Hour.of(self._traffic, hour)
        order = np.random.default_rng(SEED).permutation(len(events.rows))
        for start in range(0, len(order), EVENTS_OF_A_REQUEST):
            yield self._batch(events, hour, order[start : start + EVENTS_OF_A_REQUEST])

    def _batch(self, events: Hour, hour: int, chosen: Integers) -> EventBatch:
        held, rows = np.unique(events.rows[chosen], return_inverse=True)
        names = [self._campaigns[row] for row in held.tolist()]
        hours = np.full(len(chosen), hour)
        batch = EventBatch()
        columns = (events.scores[chosen], events.outcomes[chosen])
        batch.add_columns(TARGET, EventColumns(names, rows, hours, *columns))
        return batch
