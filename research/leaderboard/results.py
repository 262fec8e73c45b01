"""What a run of the leaderboard found: the metrics of every method, over one seed or several."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Self

import numpy as np

from calibrators.samples import Floats
from evaluation import Difference
from evaluation.bootstrap.blocks import effective_number, multiplicities


@dataclass(frozen=True, slots=True, eq=False)
class MethodSums:
    """Metrics of one method on one seed, as sums.

    losses, excess : (b,) log loss, and divergence from the truth, of each block.
    hour_losses, hour_excess : (h,) the same of each scored hour.
    observed_errors, true_errors : (c,) Cal-3 of each campaign that counts in GC-3, against
        outcomes and against the truth; the campaigns of the two may differ.
    predicted : sum of its probabilities.
    """

    losses: Floats
    excess: Floats
    hour_losses: Floats
    hour_excess: Floats
    observed_errors: Floats
    true_errors: Floats
    predicted: float


@dataclass(frozen=True, slots=True, eq=False)
class SeedResults:
    """What a run found on one seed, or on a log.

    seed : of the platform.
    hour_counts : (h,) impressions of each scored hour.
    unit : what a block is, see `evaluation.Blocks.of_campaigns`.
    counts : (b,) impressions of each block.
    positives : of all of them.
    observed_weights, true_weights : (c,) impressions of the campaigns that count in GC-3 against
        outcomes and against the truth.
    sums : of each method.
    knows_truth : whether it is; where not, every excess is 0 and true errors are observed ones.
    """

    seed: int
    hour_counts: Floats
    unit: str
    counts: Floats
    positives: float
    observed_weights: Floats
    true_weights: Floats
    sums: Mapping[str, MethodSums]
    knows_truth: bool


Pick = Callable[[MethodSums], Floats]

_losses: Pick = attrgetter("losses")
_excess: Pick = attrgetter("excess")
_hour_losses: Pick = attrgetter("hour_losses")
_hour_excess: Pick = attrgetter("hour_excess")
_observed: Pick = attrgetter("observed_errors")
_true: Pick = attrgetter("true_errors")


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The metrics of methods on one kind of traffic.

    Every figure is that of all seeds together: means over impressions (log loss, excess), or over
    campaigns weighted by their impressions (GC-3). `compare` and `compare_errors` give intervals.

    methods : their names, in the order they were given, without those that were unavailable.
    by_seed : one for each seed.
    notes : what the reader of a method's figures must know, by name.
    unavailable : the reason why a method has no figures, by name.
    """

    methods: tuple[str, ...]
    by_seed: tuple[SeedResults, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)

    @property
    def knows_truth(self) -> bool:
        """Whether excess losses and errors against the truth mean anything."""
        return all(each.knows_truth for each in self.by_seed)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the platforms."""
        return tuple(each.seed for each in self.by_seed)

    @property
    def unit(self) -> str:
        """What the blocks of an interval are: "campaign-days", or "campaign-hours"."""
        return self.by_seed[0].unit

    @property
    def impressions(self) -> float:
        """Impressions scored."""
        return float(sum(each.counts.sum() for each in self.by_seed))

    @property
    def positives(self) -> float:
        """Positives among them."""
        return float(sum(each.positives for each in self.by_seed))

    def log_loss(self, name: str) -> float:
        """Mean log loss on the observed outcomes."""
        return self._mean(name, _losses)

    def excess(self, name: str) -> float:
        """Mean divergence from the truth: what its expected log loss has above the truth's own; nan
        where the truth is unknown."""
        return self._mean(name, _excess) if self.knows_truth else float("nan")

    def pcoc(self, name: str) -> float:
        """Predicted over observed positives; nan without any."""
        predicted = sum(each.sums[name].predicted for each in self.by_seed)
        return predicted / (self.positives or np.nan)

    def gc_3(self, name: str) -> float:
        """GC-3 against observed outcomes, as `evaluation.gc_n` has it."""
        return self._error(name, _observed, self._weights(true=False))

    def gc_3_true(self, name: str) -> float:
        """GC-3 against true probabilities, GC-3*; nan where these are unknown."""
        return self._error(name, _true, self._weights(true=True)) if self.knows_truth else np.nan

    def curve(self, name: str) -> list[tuple[int, float]]:
        """Hours since the first scored one, and the mean excess in each over all seeds (mean log
        loss where the truth is unknown); hours without impressions are left out."""
        pick = _hour_excess if self.knows_truth else _hour_losses
        length = max(len(each.hour_counts) for each in self.by_seed)
        sums, counts = np.zeros(length), np.zeros(length)
        for each in self.by_seed:
            sums[: len(each.hour_counts)] += pick(each.sums[name])
            counts[: len(each.hour_counts)] += each.hour_counts
        return [
            (hour, float(sums[hour] / counts[hour])) for hour in np.flatnonzero(counts).tolist()
        ]

    def compare(
        self, a: str, b: str, *, ratio: bool = False, draws: int = 1000, seed: int = 0
    ) -> Difference:
        """Mean excess of A minus that of B (log loss where the truth is unknown), or their ratio,
        with its interval over paired draws of blocks, see `unit`."""
        return self._compare_losses(
            a, b, _excess if self.knows_truth else _losses, ratio, draws, seed
        )

    def compare_log_loss(self, a: str, b: str, *, draws: int = 1000, seed: int = 0) -> Difference:
        """Mean observed log loss of A minus that of B, over paired draws of blocks."""
        return self._compare_losses(a, b, _losses, False, draws, seed)

    def _compare_losses(
        self, a: str, b: str, pick: Pick, ratio: bool, draws: int, seed: int
    ) -> Difference:
        """See `compare`, of any sum of blocks."""
        weights = np.concatenate([each.counts for each in self.by_seed])
        tops, bottoms = (self._blocks(name, pick) for name in (a, b))
        return _drawn(tops, bottoms, weights, ratio, draws, seed)

    def compare_errors(
        self, a: str, b: str, *, ratio: bool = False, draws: int = 1000, seed: int = 0
    ) -> Difference:
        """GC-3* of A minus that of B (GC-3 where the truth is unknown), or their ratio, with its
        interval over paired draws of campaigns."""
        weights = self._weights(true=True)
        tops, bottoms = (self._blocks(name, _true) * weights for name in (a, b))
        return _drawn(tops, bottoms, weights, ratio, draws, seed)

    @classmethod
    def merge(cls, parts: Iterable["Results"]) -> Self:
        """The results of several seeds of the same methods; one that was unavailable in any of
        them is so in all. ValueError of none."""
        listed = list(parts)
        if not listed:
            raise ValueError("parts: there must be at least one")
        unavailable = {name: why for part in listed for name, why in part.unavailable.items()}
        notes = {name: note for part in listed for name, note in part.notes.items()}
        kept = tuple(name for name in listed[0].methods if name not in unavailable)
        seeds = tuple(each for part in listed for each in part.by_seed)
        return cls(kept, seeds, notes, unavailable)

    def _blocks(self, name: str, pick: Pick) -> Floats:
        return np.concatenate([pick(each.sums[name]) for each in self.by_seed])

    def _mean(self, name: str, pick: Pick) -> float:
        return float(self._blocks(name, pick).sum() / self.impressions)

    def _weights(self, *, true: bool) -> Floats:
        """Impressions of the campaigns that count in GC-3, of all seeds, (c,)."""
        each = (seed.true_weights if true else seed.observed_weights for seed in self.by_seed)
        return np.concatenate(list(each))

    def _error(self, name: str, pick: Pick, weights: Floats) -> float:
        if not len(weights):
            return float("nan")
        return float(np.average(self._blocks(name, pick), weights=weights))


def _drawn(a: Floats, b: Floats, weights: Floats, ratio: bool, draws: int, seed: int) -> Difference:
    if not len(weights):
        return Difference.of(float("nan"), np.empty(0), 0.0)
    whole = np.ones((1, len(weights)))
    parts = [
        _compared(times, a, b, weights, ratio)
        for times in (whole, *multiplicities(len(weights), draws, seed))
    ]
    return Difference.of(float(parts[0][0]), np.concatenate(parts[1:]), effective_number(weights))


def _compared(times: Floats, a: Floats, b: Floats, weights: Floats, ratio: bool) -> Floats:
    # An infinite loss, as isotonic maps may have, is undefined where it is not drawn.
    with np.errstate(divide="ignore", invalid="ignore"):
        tops, bottoms = times @ a, times @ b
        compared: Floats = tops / bottoms if ratio else (tops - bottoms) / (times @ weights)
    return compared
