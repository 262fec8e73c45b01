"""Sums over the samples of each group, and the metrics that are ratios of such sums.

A group is a slice of a streamed log, a block of the bootstrap or a draw of blocks.
"""

from dataclasses import dataclass

import numpy as np

from calibrators.samples import Floats
from evaluation.metrics.sums import quotients, ratio_errors


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sums over the samples of each group, (groups,) each; sums of two parts of a group add up.

    The metrics are those of the functions of that name in `evaluation`, (groups,) each.

    weights : of the weights.
    positives : of weight times outcome.
    expected : of weight times probability.
    log_losses : of weight times log loss.
    squares : of weight times squared error.
    """

    weights: Floats
    positives: Floats
    expected: Floats
    log_losses: Floats
    squares: Floats

    @property
    def pcoc(self) -> Floats:
        """Expected over actual positives."""
        return quotients(self.expected, self.positives)

    @property
    def copc(self) -> Floats:
        """Actual over expected positives."""
        return quotients(self.positives, self.expected)

    @property
    def prediction_error(self) -> Floats:
        """PCOC less 1."""
        return self.pcoc - 1.0

    @property
    def cal_1(self) -> Floats:
        """max(PCOC, 1 / PCOC) - 1, the distance of PCOC from 1."""
        return ratio_errors(self.expected, self.positives)

    @property
    def log_loss(self) -> Floats:
        """Mean log loss."""
        return quotients(self.log_losses, self.weights)

    @property
    def mse(self) -> Floats:
        """Mean squared error."""
        return quotients(self.squares, self.weights)

    def rig(self, entropy: Floats) -> Floats:
        """Relative information gain over the entropy of each group's rate; nan where that is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(entropy > 0.0, 1.0 - self.log_loss / entropy, np.nan)
