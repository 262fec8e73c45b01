"""Two models' scores of the same impressions, from logs of any length."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from calibrators.samples import Floats, Integers, sum_at
from evaluation.backtest.event_table import EventTable
from evaluation.bootstrap.blocks import Blocks
from evaluation.bootstrap.sums import BlockSums
from evaluation.metrics.predictions import Predictions

MOST_ROWS: Final = 10_000_000
"""Rows that are held; of a longer log a sample is."""


@dataclass(frozen=True, slots=True, eq=False)
class PairedLog:
    """What is known of a log that two models scored.

    events : the rows held, with A's scores: all of them, or a uniform sample.
    scores_b : B's scores of them.
    blocks : the block of each row held.
    sums_a, sums_b : sums over all rows of each block.
    rows : how many rows the log has.
    identical : whether both scored every row alike.
    """

    events: EventTable
    scores_b: Floats
    blocks: Blocks
    sums_a: BlockSums
    sums_b: BlockSums
    rows: int
    identical: bool

    @property
    def sampled(self) -> bool:
        """Whether the rows held are a sample."""
        return len(self.events) < self.rows


class PairedRows:
    """Batches of rows that two models scored, reduced as they come.

    Sums over campaign-hours are exact at any length. Rows are held as they are up to `most_rows`;
    beyond, every row has the same chance to stay, and between half as many and as many do. Which
    ones, the seed and their places in the log decide, not the size of the batches.
    """

    def __init__(self, most_rows: int = MOST_ROWS, seed: int = 0) -> None:
        self._most = most_rows
        self._rng = np.random.default_rng(seed)
        self._lots_below = 1.0
        self._held: list[tuple[EventTable, Floats, Floats]] = []
        self._held_rows = 0
        self._rows = 0
        self._codes: dict[str, int] = {}
        self._hours: list[_HourSums] = []
        self._identical = True

    def __len__(self) -> int:
        return self._rows

    def add(self, events: EventTable, scores_b: Floats) -> None:
        """Take in rows with A's scores, and B's scores of them, (n,)."""
        self._rows += len(events)
        self._identical = self._identical and np.array_equal(events.scores, scores_b)
        self._hours.append(self._sums(events, scores_b))
        if sum(len(hours.keys) for hours in self._hours[1:]) > len(self._hours[0].keys):
            self._hours = [_HourSums.merged(self._hours)]
        lots = self._rng.random(len(events))
        self._hold(events, scores_b, lots)
        while self._held_rows > self._most:
            self._lots_below /= 2.0
            held, self._held, self._held_rows = self._held, [], 0
            for part in held:
                self._hold(*part)

    def log(self) -> PairedLog:
        """What the rows added so far come to."""
        events = EventTable.concatenate([events for events, _, _ in self._held])
        rank = {name: row for row, name in enumerate(sorted(self._codes))}
        hours = _HourSums.merged(self._hours).renumbered([rank[name] for name in self._codes])
        blocks = Blocks.of_campaigns(*hours.campaigns_and_hours())
        rows = hours.places(events.rows.astype(np.int64), events.hours)
        return PairedLog(
            events,
            np.concatenate([np.empty(0), *(scores for _, scores, _ in self._held)]),
            Blocks(blocks.codes[rows], blocks.count, blocks.unit),
            *hours.block_sums(blocks),
            self._rows,
            self._identical,
        )

    def _hold(self, events: EventTable, scores_b: Floats, lots: Floats) -> None:
        kept = lots < self._lots_below
        if not kept.all():
            events, scores_b, lots = events.select(kept), scores_b[kept], lots[kept]
        self._held.append((events, scores_b, lots))
        self._held_rows += len(lots)

    def _sums(self, events: EventTable, scores_b: Floats) -> "_HourSums":
        for name in events.campaigns:
            self._codes.setdefault(name, len(self._codes))
        codes = np.array([self._codes[name] for name in events.campaigns], np.int64)
        keys, places = np.unique(_keys(codes[events.rows], events.hours), return_inverse=True)
        hours = Blocks(places, len(keys))
        a, b = (
            BlockSums.of(Predictions(scores, events.outcomes, events.counts), hours)
            for scores in (events.scores, scores_b)
        )
        return _HourSums(keys, np.stack([*a.columns, *b.columns]))


_HOUR_BITS = 32
_HOURS_BEFORE = 1 << 30


def _keys(campaigns: Integers, hours: Integers) -> Integers:
    return (campaigns << _HOUR_BITS) + (hours + _HOURS_BEFORE)


@dataclass(frozen=True, slots=True, eq=False)
class _HourSums:
    """Sums of both models over campaign-hours: ascending keys, (k,), and columns, (columns, k)."""

    keys: Integers
    columns: Floats

    @classmethod
    def merged(cls, parts: list["_HourSums"]) -> "_HourSums":
        keys, places = np.unique(np.concatenate([p.keys for p in parts]), return_inverse=True)
        columns = np.hstack([part.columns for part in parts])
        return cls(keys, np.stack([sum_at(places, column, len(keys)) for column in columns]))

    def renumbered(self, codes: list[int]) -> "_HourSums":
        """The same with new numbers for the campaigns."""
        campaigns, hours = self.campaigns_and_hours()
        keys = _keys(np.array(codes, np.int64)[campaigns], hours)
        order = np.argsort(keys)
        return _HourSums(keys[order], self.columns[:, order])

    def campaigns_and_hours(self) -> tuple[Integers, Integers]:
        return self.keys >> _HOUR_BITS, (self.keys & ((1 << _HOUR_BITS) - 1)) - _HOURS_BEFORE

    def places(self, campaigns: Integers, hours: Integers) -> Integers:
        return np.searchsorted(self.keys, _keys(campaigns, hours))

    def block_sums(self, blocks: Blocks) -> tuple[BlockSums, BlockSums]:
        sums = [sum_at(blocks.codes, column, blocks.count) for column in self.columns]
        half = len(sums) // 2
        return BlockSums(*sums[:half]), BlockSums(*sums[half:])
