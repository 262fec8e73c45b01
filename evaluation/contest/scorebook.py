"""The sums of a play: what every contender has predicted so far, and what it was worth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.blocks import LEAST_BLOCKS
from evaluation.contest.campaign_errors import CampaignErrors, enough
from evaluation.contest.ledger import Judged, Ledger
from evaluation.contest.rounds import TRUTH, Round, Sums
from evaluation.event_table import EventTable

GROUPS: Final = 1000
"""Campaigns beyond so many share the blocks of others, which bounds the sums."""

_SPANS = {24: "campaign-days", 1: "campaign-hours"}
"""Hours of a block, the longest of which there are enough first."""


@dataclass(slots=True)
class Scorebook:
    """Sums of a play of so many campaigns, whose judged hours, since 1970, are [first, behind)."""

    campaigns: int
    first: int
    behind: int
    counts: Floats = field(init=False)
    positives: Floats = field(init=False)
    hour_counts: Floats = field(init=False)
    knows_truth: bool = True
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    _scores: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.counts, self.positives = np.zeros(self._blocks), np.zeros(self._blocks)
        self.hour_counts = np.zeros(self.behind - self.first)
        self._scores = self._ledger()

    @property
    def _groups(self) -> int:
        return min(self.campaigns, GROUPS)

    @property
    def _span(self) -> int:
        """Hours of a block; as `Blocks.of_campaigns` has it, days where there are enough."""
        enough = (span for span in _SPANS if self._groups * self._spans(span) >= LEAST_BLOCKS)
        return next(enough, min(_SPANS))

    def _spans(self, span: int) -> int:
        return (self.behind - 1) // span - self.first // span + 1

    @property
    def _blocks(self) -> int:
        return self._groups * self._spans(self._span)

    def _ledger(self) -> Ledger:
        return Ledger(self._blocks, self.behind - self.first)

    def add(
        self, hour: int, events: EventTable, truth: Floats | None, predicted: Mapping[str, Floats]
    ) -> None:
        """Judge the probabilities, (n,), of each contender on impressions of an hour; truth, (n,),
        if known."""
        rows = events.rows.astype(np.int64)
        span = self._span
        blocks = rows % GROUPS * self._spans(span) + (hour // span - self.first // span)
        judged = Judged(rows, events.scores, events.outcomes, events.counts, truth, blocks)
        place = hour - self.first
        self.counts += np.bincount(blocks, events.counts, self._blocks)
        self.positives += np.bincount(blocks, events.positives, self._blocks)
        self.hour_counts[place] += events.counts.sum()
        self._scores.add(judged, events.scores, place)
        for name, probabilities in predicted.items():
            self.ledgers.setdefault(name, self._ledger()).add(judged, probabilities, place)
        if truth is None:
            self.knows_truth = False
        else:
            self.ledgers.setdefault(TRUTH, self._ledger()).add(judged, truth, place)

    def round(self, seed: int) -> Round:
        """The sums so far; floors are drawn by the seed."""
        held = np.flatnonzero(self.counts)
        if not len(held):
            raise ValueError("no impression is in the judged hours: nothing to judge")
        scores = self._scores.cells()
        kept = enough(scores, self.campaigns)
        weights = np.bincount(scores.rows, scores.weights, self.campaigns)[kept].astype(np.float64)
        return Round(
            seed=seed,
            hours=np.arange(self.first, self.behind),
            hour_counts=self.hour_counts,
            unit=_SPANS[self._span],
            blocks=held,
            counts=self.counts[held],
            positives=self.positives[held],
            campaigns=kept,
            weights=weights,
            sums={name: self._sums(each, held, kept, seed) for name, each in self.ledgers.items()},
            knows_truth=self.knows_truth,
        )

    def _sums(self, ledger: Ledger, held: Integers, kept: Integers, seed: int) -> Sums:
        errors = CampaignErrors.of(ledger.cells(), kept, np.random.default_rng(seed))
        return Sums(
            losses=ledger.losses[held],
            excess=ledger.excess[held],
            hour_losses=ledger.hour_losses,
            hour_excess=ledger.hour_excess,
            observed_errors=errors.observed,
            true_errors=errors.true,
            floors=errors.floor,
        )
