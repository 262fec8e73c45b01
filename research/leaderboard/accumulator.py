"""The scored impressions of a run, and the metrics of every method's predictions of them.

Log loss and GC-3 are those of `evaluation`, of the very rows, so that they are what
`sirocco backtest` prints for the same log and probabilities.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from calibrators.samples import Floats, Integers, sum_at
from evaluation import Blocks, EventTable, grouped_cal_n
from evaluation.metrics.calibration import sample_losses
from research.leaderboard.results import MethodSums, SeedResults

BINS: Final = 3
"""Of GC-3."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRows:
    """Scored impressions, (n,) each: number of the campaign, hour since 1970, outcome, how many
    impressions it stands for, and its true probability, None where nobody knows."""

    campaigns: Integers
    hours: Integers
    outcomes: Floats
    weights: Floats
    truth: Floats | None

    def sums(self, p: Floats, blocks: Blocks, first: int, behind: int) -> MethodSums:
        """The metrics of probabilities, (n,), by block, by hour of [first, behind), by campaign."""
        labels = self.outcomes if self.truth is None else self.truth
        losses = sample_losses(p, self.weights * self.outcomes, self.weights)
        excess = np.zeros(len(p)) if self.truth is None else self._excess(p, self.truth)
        hours, spans = self.hours - first, behind - first
        return MethodSums(
            losses=sum_at(blocks.codes, losses, blocks.count),
            excess=sum_at(blocks.codes, excess, blocks.count),
            hour_losses=sum_at(hours, losses, spans),
            hour_excess=sum_at(hours, excess, spans),
            observed_errors=self._errors(p, self.outcomes),
            true_errors=self._errors(p, labels),
            predicted=float(self.weights @ p),
        )

    def campaign_weights(self, labels: Floats) -> Floats:
        """Impressions of the campaigns that count in GC-3, by number, (c,)."""
        held = sorted(self._cal_n(labels, labels))
        weights: Floats = np.bincount(self.campaigns, self.weights)[held].astype(np.float64)
        return weights

    def _excess(self, p: Floats, truth: Floats) -> Floats:
        """What the expected log loss of each row has above the truth's own, (n,): the
        Kullback-Leibler divergence, without the noise of outcomes."""
        positives = self.weights * truth
        expected, least = (sample_losses(each, positives, self.weights) for each in (p, truth))
        # Rounding may leave less than nothing where the prediction is the truth.
        return np.maximum(expected - least, 0.0)

    def _errors(self, p: Floats, labels: Floats) -> Floats:
        found = self._cal_n(p, labels)
        return np.array([found[campaign] for campaign in sorted(found)])

    def _cal_n(self, p: Floats, labels: Floats) -> Mapping[int, float]:
        """Cal-3 of the campaigns with enough (expected) positives, by number."""
        found = grouped_cal_n(p, labels, self.campaigns, BINS, sample_weight=self.weights)
        return cast(Mapping[int, float], found.per_campaign)


@dataclass(slots=True)
class Accumulator:
    """Collects the impressions of the scored hours [first, behind), since 1970, and the
    probabilities that each method gave them."""

    first: int
    behind: int
    _events: list[EventTable] = field(default_factory=list)
    _hours: list[int] = field(default_factory=list)
    _truth: list[Floats | None] = field(default_factory=list)
    _predicted: dict[str, list[Floats]] = field(default_factory=dict)

    def add(
        self, hour: int, events: EventTable, truth: Floats | None, predicted: Mapping[str, Floats]
    ) -> None:
        """Take in impressions of an hour, the probabilities, (n,), of each method, and the truth,
        (n,), if known."""
        self._events.append(events)
        self._hours.append(hour)
        self._truth.append(truth)
        for name, probabilities in predicted.items():
            self._predicted.setdefault(name, []).append(probabilities)

    def remove(self, name: str) -> None:
        """Forget a method that cannot go on."""
        self._predicted.pop(name, None)

    def results(self, seed: int) -> SeedResults:
        """The metrics of all methods; a ValueError when there is no impression."""
        rows = self._rows()
        if not len(rows.hours):
            raise ValueError("no impression is in the scored hours: nothing to evaluate")
        blocks = Blocks.of_campaigns(rows.campaigns, rows.hours)
        sums = {
            name: rows.sums(np.concatenate(parts), blocks, self.first, self.behind)
            for name, parts in self._predicted.items()
        }
        return SeedResults(
            seed=seed,
            hour_counts=sum_at(rows.hours - self.first, rows.weights, self.behind - self.first),
            unit=blocks.unit,
            counts=sum_at(blocks.codes, rows.weights, blocks.count),
            positives=float(rows.weights @ rows.outcomes),
            observed_weights=rows.campaign_weights(rows.outcomes),
            true_weights=rows.campaign_weights(rows.outcomes if rows.truth is None else rows.truth),
            sums=sums,
            knows_truth=rows.truth is not None,
        )

    def _rows(self) -> ScoredRows:
        known = [truth for truth in self._truth if truth is not None]
        counts = [len(events) for events in self._events]
        return ScoredRows(
            np.concatenate([events.rows for events in self._events]).astype(np.int64),
            np.repeat(self._hours, counts),
            np.concatenate([events.outcomes for events in self._events]),
            np.concatenate([events.counts for events in self._events]),
            np.concatenate(known) if len(known) == len(self._truth) else None,
        )
