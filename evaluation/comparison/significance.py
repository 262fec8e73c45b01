"""Which predictions of the same events differ beyond chance: log loss, GC-3 and AUC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from calibrators.samples import Floats
from evaluation.backtest.event_table import EventTable
from evaluation.bootstrap.blocks import BlockCells, Blocks, BlockSums, Progress, Resampled, centred
from evaluation.bootstrap.paired import (
    MOST_RANKED_DRAWS,
    Difference,
    paired_difference,
    resample_all,
)
from evaluation.bootstrap.ranking import BlockAuc, BlockGcN
from evaluation.metrics.predictions import Predictions

Pair = tuple[str, str]
Drawn = Mapping[tuple[str, str], Floats]

LOWER_IS_BETTER: Final = {"log_loss": True, "gc_3": True, "auc": False}
"""The metrics that are compared, by their names on the scorecard."""


@dataclass(frozen=True, slots=True)
class Significance:
    """Differences between predictions, each with its interval over draws of blocks.

    differences : (A, B) -> metric -> its value for A minus its value for B.
    blocks : how many blocks were drawn from.
    unit : what a block is, such as "campaign-days".
    effective : how many blocks of one size vary as they do.
    draws : how often each metric was drawn.
    seed : of the draws.
    """

    differences: Mapping[Pair, Mapping[str, Difference]]
    blocks: int
    unit: str
    effective: float
    draws: Mapping[str, int]
    seed: int

    def better(self, pair: Pair, metric: str) -> int:
        """1 where A is better than B beyond chance, -1 where it is worse, else 0."""
        sign = self.differences[pair][metric].sign
        return -sign if LOWER_IS_BETTER[metric] else sign


def significance(
    events: EventTable,
    predictions: Mapping[str, Floats],
    scorecards: Mapping[str, Mapping[str, float]],
    pairs: Sequence[Pair],
    *,
    draws: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Significance:
    """Draw the campaign-days of the events, and see how the differences move.

    Draws of GC-3 are centred on its value, see `evaluation.bootstrap.blocks.centred`.

    events : n events.
    predictions : name -> (n,) probabilities.
    scorecards : name -> `scorecard` of these predictions.
    pairs : names of A and B.
    draws : of the log loss; GC-3 and AUC get 300 of them at most.
    seed : of the draws.
    progress : called with (draws done, draws in all).

    Source: See `paired_bootstrap`.
    """
    blocks = Blocks.of_campaigns(events.rows, events.hours)
    sums: dict[tuple[str, str], Resampled] = {}
    ranked: dict[tuple[str, str], Resampled] = {}
    for name in dict.fromkeys(name for pair in pairs for name in pair):
        checked = Predictions.check(predictions[name], events.outcomes, events.weights)
        sums[name, "log_loss"] = BlockSums.of(checked, blocks).metric("log_loss")
        cells = BlockCells.of(checked, blocks)
        ranked[name, "gc_3"] = BlockGcN.of(cells, blocks, events.rows, events.counts, 3)
        ranked[name, "auc"] = BlockAuc.of(cells)
    drawn = resample_all(sums, ranked, blocks.count, draws=draws, seed=seed, progress=progress)
    for name, card in scorecards.items():
        if (name, "gc_3") in drawn:
            drawn[name, "gc_3"] = centred(drawn[name, "gc_3"], card["gc_3"])
    effective, few = blocks.effective(events.counts), min(draws, MOST_RANKED_DRAWS)
    return Significance(
        {pair: _differences(pair, scorecards, drawn, effective) for pair in pairs},
        blocks.count,
        blocks.unit,
        effective,
        {"log_loss": draws, "gc_3": few, "auc": few},
        seed,
    )


def _differences(
    pair: Pair, scorecards: Mapping[str, Mapping[str, float]], drawn: Drawn, effective: float
) -> dict[str, Difference]:
    return {
        metric: paired_difference(
            [scorecards[name][metric] for name in pair],
            [drawn[name, metric] for name in pair],
            effective,
        )
        for metric in LOWER_IS_BETTER
    }
