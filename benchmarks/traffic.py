"""Campaigns and their traffic, hour by hour, for refits of any size."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from app.storage import EventBatch
from app.storage.event_columns import EventColumns
from app.storage.keys import SHARDS, shard_of
from benchmarks.maps import campaign_names
from calibrators import BinsTable
from calibrators.samples import Floats, Integers

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
