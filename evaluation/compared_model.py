"""One of two models that are compared: its metrics, and what they become in draws of blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from calibrators.samples import Floats
from evaluation.bias_split import Mask
from evaluation.block_cells import BlockCells
from evaluation.block_cs_auc import BlockCsAuc
from evaluation.block_draws import Resampled, observed
from evaluation.block_gc_n import BlockGcN
from evaluation.block_ranking import BlockAuc, BlockCalibratedLogLoss
from evaluation.block_sums import BlockSums
from evaluation.blocks import Blocks
from evaluation.calibrated_loss import calibrated_losses, samples_at
from evaluation.cs_auc import cs_auc
from evaluation.event_table import EventTable
from evaluation.predictions import Predictions
from evaluation.scorecard import scorecard

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

    Attributes
    ----------
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
        exact = {name: self._observed(self.sums.metric(name)) for name in _FROM_ALL_ROWS}
        numbers = {**card, **{n: float(v) for n, v in counts.items()}, **exact}
        return {**numbers, **self._calibrated(), **self._revenue()}

    @property
    def can_be_calibrated(self) -> bool:
        """Whether the bias rows hold both outcomes, without which no shift is finite."""
        outcomes = self.events.outcomes[self.bias_rows]
        return bool(len(outcomes) and outcomes.max() > 0.0 and outcomes.min() < 1.0)

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
            "calibrated_log_loss": BlockCalibratedLogLoss.of(bias, rest),
            "auc": BlockAuc.of(cells),
            "gc_3": BlockGcN.of(cells, self.blocks, self.events.rows, ones, 3),
        }
        if self._bids is not None:
            revenue = self.scores * self._bids
            positive = self.events.outcomes == 1.0
            ranked["cs_auc"] = BlockCsAuc.of(revenue, positive, self._bids, self.blocks)
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
        first, second = ((mask, samples_at(self._predictions, mask)) for mask in masks)
        return first, second

    def _calibrated(self) -> dict[str, float]:
        y = self.events.outcomes
        quadratic = calibrated_losses(self.scores, y, "quadratic", bias_rows=self.bias_rows)
        numbers = {
            "calibrated_quadratic_loss": quadratic.value,
            "mse_beside_calibrated": quadratic.plain,
        }
        if not self.can_be_calibrated:
            return {**numbers, **dict.fromkeys(_OF_LOG_LOSS, float("nan"))}
        log = calibrated_losses(self.scores, y, "log", bias_rows=self.bias_rows)
        return {**numbers, **dict(zip(_OF_LOG_LOSS, (log.value, log.plain), strict=True))}

    def _revenue(self) -> dict[str, float]:
        if self._bids is None:
            return {}
        return {"cs_auc": cs_auc(self.scores, self.events.outcomes, self._bids)}

    def _observed(self, metric: Resampled) -> float:
        return observed(metric, self.blocks.count)


_OF_LOG_LOSS: Final = ("calibrated_log_loss", "log_loss_beside_calibrated")


@dataclass(frozen=True, slots=True, eq=False)
class _CalibratedSquares:
    """`calibrated_quadratic_loss` in every draw, from sums over bias rows and over the rest."""

    bias: BlockSums
    rest: BlockSums

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        bias, rest = self.bias.drawn(multiplicities), self.rest.drawn(multiplicities)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = (bias.positives - bias.expected) / bias.weights
            residual = (rest.positives - rest.expected) / rest.weights
            return rest.squares / rest.weights - 2.0 * shift * residual + shift**2
