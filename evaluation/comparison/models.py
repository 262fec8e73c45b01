"""Two models on the same rows: their metrics, plain and calibrated, and how far they differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from calibrators.samples import Floats, Integers, sum_at
from evaluation.backtest.event_table import EventTable
from evaluation.bootstrap.blocks import (
    BlockCells,
    Blocks,
    BlockSums,
    Progress,
    Resampled,
    centred,
    effective_number,
    observed,
)
from evaluation.bootstrap.paired import (
    MOST_RANKED_DRAWS,
    Contrast,
    Difference,
    less,
    paired_difference,
    resample_all,
)
from evaluation.bootstrap.ranking import BlockAuc, BlockCalibratedLogLoss, BlockCsAuc, BlockGcN
from evaluation.metrics.calibrated_loss import bias_split, calibrated_and_plain
from evaluation.metrics.calibration import both_outcomes, scorecard
from evaluation.metrics.cs_auc import cs_auc
from evaluation.metrics.predictions import Mask, Predictions, quotients

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


LOWER_IS_BETTER: Final[Mapping[str, bool]] = {
    "log_loss": True,
    "log_loss_beside_calibrated": True,
    "calibrated_log_loss": True,
    "mse": True,
    "mse_beside_calibrated": True,
    "calibrated_quadratic_loss": True,
    "rig": False,
    "auc": False,
    "cs_auc": False,
    "cal_1": True,
    "gc_3": True,
}
"""The metrics in which models are compared."""

_FROM_ALL_ROWS: Final = ("log_loss", "mse", "rig", "pcoc", "cal_1")


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """A model's scores of the rows held of a log.

    events : the rows.
    scores : (n,) what the model gave them.
    blocks : the block of each row.
    sums : sums over all rows of each block, those that are not held too.
    bias_rows : (n,) the rows on which the bias of calibrated losses is fitted.
    """

    events: EventTable
    scores: Floats
    blocks: Blocks
    sums: BlockSums
    bias_rows: Mask

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric by name; nan where undefined. csAUC only where there are bids."""
        card = scorecard(self.scores, self.events.outcomes, self.events.rows)
        counts = {"n": self.sums.weights.sum(), "positives": self.sums.positives.sum()}
        count = self.blocks.count
        exact = {name: observed(self.sums.metric(name), count) for name in _FROM_ALL_ROWS}
        numbers = {**card, **{n: float(v) for n, v in counts.items()}, **exact}
        columns = (self.scores, self.events.outcomes, self.events.counts, self.bias_rows)
        calibrated = calibrated_and_plain(*columns, losses=("quadratic", "log"))
        numbers |= calibrated
        if self._bids is not None:
            numbers["cs_auc"] = cs_auc(self.scores, self.events.outcomes, self._bids)
        return numbers

    @property
    def can_be_calibrated(self) -> bool:
        """Whether the bias rows hold both outcomes, without which no shift is finite."""
        return both_outcomes(self.events.outcomes[self.bias_rows])

    def sum_metrics(self) -> dict[str, Resampled]:
        """What sums decide, ready to be drawn."""
        bias, rest = (BlockSums.of(part, self.blocks_at(mask)) for mask, part in self._parts)
        return {
            **{name: self.sums.metric(name) for name in _FROM_ALL_ROWS},
            "log_loss_beside_calibrated": rest.metric("log_loss"),
            "mse_beside_calibrated": rest.metric("mse"),
            "calibrated_quadratic_loss": _CalibratedSquares(bias, rest),
        }

    def ranked_metrics(self) -> dict[str, Resampled]:
        """What takes the rows themselves, ready to be drawn."""
        bias, rest = (BlockCells.of(part, self.blocks_at(mask)) for mask, part in self._parts)
        cells = BlockCells.of(self._predictions, self.blocks)
        ones = self.events.counts
        ranked: dict[str, Resampled] = {
            "calibrated_log_loss": BlockCalibratedLogLoss(bias, rest),
            "auc": BlockAuc.of(cells),
            "gc_3": BlockGcN.of(cells, self.blocks, self.events.rows, ones, 3),
        }
        if self._bids is not None:
            revenue = self.scores * self._bids
            positive = self.events.outcomes == 1.0
            ranked["cs_auc"] = BlockCsAuc(revenue, positive, self._bids, self.blocks)
        return ranked

    def blocks_at(self, mask: Mask) -> Blocks:
        """The blocks of some of the rows, numbered as those of all."""
        return Blocks(self.blocks.codes[mask], self.blocks.count, self.blocks.unit)

    @property
    def _bids(self) -> Floats | None:
        """Bids, where csAUC is defined: it knows no fraction of a click."""
        outcomes = self.events.outcomes
        return self.events.bids if ((outcomes == 0.0) | (outcomes == 1.0)).all() else None

    @cached_property
    def _predictions(self) -> Predictions:
        return Predictions.check(self.scores, self.events.outcomes, None)

    @property
    def _parts(self) -> tuple[tuple[Mask, Predictions], tuple[Mask, Predictions]]:
        masks = self.bias_rows, ~self.bias_rows
        first, second = ((mask, self._predictions.select(mask)) for mask in masks)
        return first, second


@dataclass(frozen=True, slots=True, eq=False)
class _CalibratedSquares:
    """`calibrated_quadratic_loss` in every draw, from sums over bias rows and over the rest."""

    bias: BlockSums
    rest: BlockSums

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        bias, rest = self.bias.drawn(multiplicities), self.rest.drawn(multiplicities)
        shift = quotients(bias.positives - bias.expected, bias.weights)
        residual = quotients(rest.positives - rest.expected, rest.weights)
        return quotients(rest.squares, rest.weights) - 2.0 * shift * residual + shift**2


A: Final = "A"
B: Final = "B"
LIFTED: Final = (
    "log_loss", "calibrated_log_loss", "mse", "calibrated_quadratic_loss", "auc", "cs_auc"
)  # fmt: skip
"""Metrics whose ratio means something: they have a zero, and are not near it."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelComparison:
    """What a comparison of two models found.

    models : "A" and "B".
    differences : metric -> its value for A minus its value for B.
    lifts : metric -> by which share A improves on B, positive where A is better.
    effective : how many blocks of one size vary as these do.
    draws : of what sums decide, and of what takes the rows.
    """

    models: Mapping[str, ComparedModel]
    differences: Mapping[str, Difference]
    lifts: Mapping[str, Difference]
    effective: float
    draws: tuple[int, int]

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of both."""
        return {side: model.metrics for side, model in self.models.items()}

    @property
    def blocks(self) -> Blocks:
        """What was drawn."""
        return self.models[A].blocks

    def better(self, metric: str) -> str | None:
        """Which of them is better beyond chance, "A" or "B"; None where nobody can tell."""
        sign = self.differences[metric].sign
        return {0: None, -1: A, 1: B}[sign if LOWER_IS_BETTER[metric] else -sign]

    def leads(self, metric: str) -> str:
        """Which of them has the better value, by chance or not."""
        lower = self.differences[metric].value < 0.0
        return A if lower == LOWER_IS_BETTER[metric] else B


def compared_models(
    log: PairedLog, *, bias_share: float = 0.1, seed: int = 0
) -> dict[str, ComparedModel]:
    """Both models, with the bias of calibrated losses fitted on the same rows of the log."""
    bias_rows = bias_split(np.ones(len(log.events), bool), None, bias_share, seed)
    sides = ((A, log.events.scores, log.sums_a), (B, log.scores_b, log.sums_b))
    return {
        side: ComparedModel(log.events, scores, log.blocks, sums, bias_rows)
        for side, scores, sums in sides
    }


def compare_models(
    models: Mapping[str, ComparedModel],
    *,
    draws: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> ModelComparison:
    """Draw the blocks of the log, both models on the same draws, and see how differences move.

    models : "A" and "B", on the same rows.
    draws : of what sums decide; what takes the rows gets 300 of them at most. 0 for no intervals.
    seed : of the draws.
    progress : called with (draws done, draws in all).

    Source: See `paired_bootstrap`, and `calibrated_losses` for what calibrated losses are.
    """
    metrics = {side: model.metrics for side, model in models.items()}
    drawn = _drawn(models, metrics, draws, seed, progress) if draws else {}
    effective = effective_number(models[A].sums.weights)

    def difference(name: str, contrast: Contrast = less) -> Difference:
        values = [metrics[side][name] for side in (A, B)]
        moved = [drawn.get((side, name), np.empty(0)) for side in (A, B)]
        return paired_difference(values, moved, effective, contrast=contrast)

    return ModelComparison(
        models,
        {name: difference(name) for name in LOWER_IS_BETTER if name in metrics[A]},
        {name: difference(name, _lift(name)) for name in LIFTED if name in metrics[A]},
        effective,
        (draws, min(draws, MOST_RANKED_DRAWS)),
    )


def _drawn(
    models: Mapping[str, ComparedModel],
    metrics: Mapping[str, Mapping[str, float]],
    draws: int,
    seed: int,
    progress: Progress | None,
) -> dict[tuple[str, str], Floats]:
    """Every metric of both models, by side and name, in every draw."""
    count = models[A].blocks.count
    sums = _named({side: model.sum_metrics() for side, model in models.items()})
    ranked = _named({side: model.ranked_metrics() for side, model in models.items()})
    drawn = resample_all(sums, ranked, count, draws=draws, seed=seed, progress=progress)
    for (side, name), metric in ranked.items():
        value, held = metrics[side][name], drawn[side, name]
        # Cells and buckets move every draw alike.
        exact = held + (value - observed(metric, count))
        drawn[side, name] = centred(held, value) if name == "gc_3" else exact
    return drawn


def _named(sides: Mapping[str, Mapping[str, Resampled]]) -> dict[tuple[str, str], Resampled]:
    return {
        (side, name): metric for side, metrics in sides.items() for name, metric in metrics.items()
    }


def _lift(name: str) -> Contrast:
    """By which share A is better than B."""
    sign = -1.0 if LOWER_IS_BETTER[name] else 1.0
    return lambda a, b: sign * less(a, b) / b
