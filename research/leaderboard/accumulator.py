"""What a contender's predictions add up to: bounded sums in place of rows.

GC-3 of a contest: the error of the bins of each campaign that has enough positives.
The sums of a play: what every contender has predicted so far, and what it was worth.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import xlogy

from calibrators.bins.grid import Grid
from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import EventTable
from evaluation.bootstrap.blocks import LEAST_BLOCKS
from evaluation.metrics.cal_n import cal_n_of_runs
from evaluation.metrics.ranks import Runs
from research.leaderboard.results import TRUTH, Round, Sums

LOWEST: Final = 1e-6
"""Probabilities are judged as at least this, and at most 1 less this: 0 would cost infinity."""

CELLS: Final = Grid(octaves=24, bits=5)
"""Cells of predicted probability, 3 % wide at most; bins of equal frequency cut inside them."""

_COLUMNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Impressions to judge, (n,) each: campaign, score, outcome, weight, truth where it is known,
    and the block of each row."""

    rows: Integers
    scores: Floats
    outcomes: Floats
    weights: Floats
    truth: Floats | None
    blocks: Integers


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Weights, predictions, outcomes and truth of each (campaign, cell), (k,) each, by key."""

    keys: Integers
    weights: Floats
    predicted: Floats
    observed: Floats
    truth: Floats

    @property
    def rows(self) -> Integers:
        """The campaign of each cell."""
        return self.keys // CELLS.size


@dataclass(slots=True)
class Ledger:
    """Sums of one contender: losses and excess losses of each block, (blocks,), and of each hour,
    (hours,); and cells of predictions.

    Excess is the Kullback-Leibler divergence of the prediction from the truth: what the log loss
    has above that of the truth, without the noise of outcomes. It stays 0 where nobody knows.
    """

    blocks: int
    hours: int
    losses: Floats = field(init=False)
    excess: Floats = field(init=False)
    hour_losses: Floats = field(init=False)
    hour_excess: Floats = field(init=False)
    _held: list[tuple[Integers, Floats]] = field(default_factory=list)
    _waiting: int = 0

    def __post_init__(self) -> None:
        self.losses, self.excess = np.zeros(self.blocks), np.zeros(self.blocks)
        self.hour_losses, self.hour_excess = np.zeros(self.hours), np.zeros(self.hours)

    def add(self, judged: Judged, probabilities: Floats, hour: int) -> None:
        """Take in predictions, (n,), made in one of the judged hours."""
        p = np.clip(probabilities, LOWEST, 1.0 - LOWEST)
        losses = judged.weights * log_losses(p, judged.outcomes)
        self.losses += np.bincount(judged.blocks, losses, self.blocks)
        self.hour_losses[hour] += losses.sum()
        if judged.truth is not None:
            excess = judged.weights * excess_losses(p, judged.truth)
            self.excess += np.bincount(judged.blocks, excess, self.blocks)
            self.hour_excess[hour] += excess.sum()
        self._add_cells(judged, p)

    def cells(self) -> CellSums:
        """The cells of all predictions so far, by campaign and probability."""
        self._merge()
        keys, sums = self._held[0] if self._held else (np.empty(0, np.int64), np.empty((4, 0)))
        return CellSums(keys, *sums)

    def _add_cells(self, judged: Judged, p: Floats) -> None:
        truth = judged.outcomes if judged.truth is None else judged.truth
        keys = judged.rows * CELLS.size + CELLS.cells_of(p)
        columns = np.stack((np.ones(len(p)), p, judged.outcomes, truth)) * judged.weights
        self._held.append(_summed(keys, columns))
        self._waiting += len(self._held[-1][0])
        if self._waiting > 2 * len(self._held[0][0]):
            self._merge()

    def _merge(self) -> None:
        if len(self._held) > 1:
            keys, columns = zip(*self._held, strict=True)
            self._held = [_summed(np.concatenate(keys), np.hstack(columns))]
        self._waiting = 0


def log_losses(p: Floats, outcomes: Floats) -> Floats:
    """Log loss of each prediction inside (0, 1), (n,)."""
    losses: Floats = -(outcomes * np.log(p) + (1.0 - outcomes) * np.log1p(-p))
    return losses


def excess_losses(p: Floats, truth: Floats) -> Floats:
    """Expected log loss of each prediction inside (0, 1) above the truth's own, (n,)."""
    entropy = xlogy(truth, truth) + xlogy(1.0 - truth, 1.0 - truth)
    # Rounding may leave less than nothing where the prediction is the truth.
    return np.maximum(entropy + log_losses(p, truth), 0.0)


def _summed(keys: Integers, columns: Floats) -> tuple[Integers, Floats]:
    distinct, places = np.unique(keys, return_inverse=True)
    sums = np.stack([np.bincount(places, column, len(distinct)) for column in columns])
    return distinct, sums.reshape(_COLUMNS, len(distinct)).astype(np.float64)


BINS: Final = 3
LEAST_POSITIVES: Final = 5.0 * BINS
"""Expected positives (observed ones in a log) that a campaign needs to count: 5 in a bin on
average, as `gc_n` demands of observed ones; the same campaigns for all contenders."""

_DRAWS = 20


def enough(cells: CellSums, campaigns: int) -> Integers:
    """The campaigns with enough expected positives, ascending."""
    expected = np.bincount(cells.rows, cells.truth, campaigns)
    return np.flatnonzero(expected >= LEAST_POSITIVES)


@dataclass(frozen=True, slots=True, eq=False)
class CampaignErrors:
    """Cal-3 of some campaigns, (k,) each: against outcomes, against the truth (or outcomes, where
    it is unknown), and its floor, the mean against outcomes drawn from the predictions."""

    observed: Floats
    true: Floats
    floor: Floats

    @classmethod
    def of(cls, cells: CellSums, kept: Integers, rng: np.random.Generator) -> "CampaignErrors":
        """The errors of the campaigns `kept`, ascending, from one contender's cells."""
        chosen = np.isin(cells.rows, kept)
        weights = cells.weights[chosen]
        means = np.minimum(cells.predicted[chosen] / weights, 1.0)
        groups = np.searchsorted(kept, cells.rows[chosen])
        runs = Runs.of(means, weights, groups, len(kept))
        whole = np.rint(weights).astype(np.int64)
        drawn = [cal_3(runs, rng.binomial(whole, means).astype(float)) for _ in range(_DRAWS)]
        return cls(
            cal_3(runs, cells.observed[chosen]),
            cal_3(runs, cells.truth[chosen]),
            np.mean(drawn, axis=0),
        )


def cal_3(runs: Runs, positives: Floats) -> Floats:
    """Cal-3 of each group; a bin without positives joins the one below."""
    return cal_n_of_runs(runs, runs.sums(positives), BINS, "merge")


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
