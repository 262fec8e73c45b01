"""What a comparison of two models found, and what the reader must know about it."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.command_line.block_words import block_warnings
from evaluation.model_comparison import A, ModelComparison
from evaluation.paired_log import PairedLog


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two models on the same impressions.

    Attributes
    ----------
    names : what A and B are: files and columns.
    log : the impressions.
    found : metrics and differences.
    seed : of the draws, of the bias rows and of a sample of rows.
    bias_share : share of the rows that the bias was fitted on.
    """

    names: Mapping[str, str]
    log: PairedLog
    found: ModelComparison
    seed: int
    bias_share: float

    @property
    def warnings(self) -> list[str]:
        """What makes the numbers less than they seem."""
        said = []
        if self.found.draws[0]:
            blocks = self.log.blocks
            said += block_warnings(blocks.count, blocks.unit, self.found.effective)
        if not self.found.models[A].can_be_calibrated:
            said.append(
                f"The {self.bias_share:.0%} of the rows that the bias is fitted on hold one outcome"
                " only: the calibrated log loss is undefined; give a larger --bias-share."
            )
        return [*said, *sample_notes(self.log, "log has")]


def sample_notes(log: PairedLog, which: str) -> list[str]:
    """What is measured on a sample of the rows, where that is so."""
    if not log.sampled:
        return []
    return [
        f"The {which} {log.rows:,} rows. AUC, csAUC, GC-N, calibrated losses and those beside them"
        f" are of a random {len(log.events):,} of them; PCOC, log loss, quadratic loss and RIG are"
        " of all."
    ]
