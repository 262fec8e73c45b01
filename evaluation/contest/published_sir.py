"""SIR to the letter of its paper: what the repository's own is compared with."""

from dataclasses import dataclass, field
from math import ceil
from typing import Final

import numpy as np

from calibrators.bins_table import BinsTable
from calibrators.fixed_point import SCALE
from calibrators.history import History
from calibrators.method import Fitted
from calibrators.refit import refit_blocks
from calibrators.samples import Integers
from calibrators.smoothed_isotonic import SmoothedIsotonic
from calibrators.sufficiency import Sufficiency
from calibrators.tails import Tails

BIN_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class PublishedSir:
    """Algorithm 1 on each campaign's own window, the identity where it gives no map.

    Source: Deng et al., Calibrating User Response Predictions in Online Advertising, section 5.1.
    floor(N / n) bins of exactly n samples; the rest, which are the largest scores, is dropped; bins
    are anchored at the middle of their range; no prior, no parent. Gaps closed: the loop of the
    pooling stops at an empty list, and beyond the outermost anchors, where the paper defines
    nothing, `tails` hold: lines to (0, 0) and (1, 1), the best for it of the four on thin traffic
    by far, and within a tenth of the best elsewhere.
    From bins, not samples: a cell that a cut falls into, .8 % wide at most, is split in proportion.

    Parameters: bin_size, n; hours of the window; tails, see `calibrators.tails.Tails`.
    """

    bin_size: int = BIN_SIZE
    hours: int = 24
    tails: Tails = "unit"
    name: str = field(default="sir_published", init=False)

    def refit(self, history: History, *, memory: object = None, trial: bool = False) -> Fitted:
        """See `Method`; the trial is the refit of an hour before."""
        behind = ceil(history.as_of)
        before = self._of(history, behind - 1).atlas if trial else None
        return Fitted(self._of(history, behind).atlas, before)

    def _of(self, history: History, behind: int) -> Fitted:
        calibrator = SmoothedIsotonic(self.bin_size, "midpoint", self.tails, prior_strength=0.0)
        windows = history.windows(behind - self.hours, behind)
        whole = [whole_bins(window, self.bin_size) for window in windows]
        # An empty total gives no target's map, so who has no bin gets the identity.
        nothing = BinsTable.empty().total()
        found = refit_blocks(whole, nothing, calibrator, Sufficiency(1.0, 0.0))
        return Fitted(found.atlas, None, found.skipped)


def whole_bins(table: BinsTable, bin_size: int) -> BinsTable:
    """The lowest floor(N / n) n samples of each campaign, N its samples: what full bins hold."""
    scores, outcomes, weights, rows = table.samples()
    units = np.rint(weights * SCALE).astype(np.int64)
    reached, before = _reached(units, rows)
    totals = np.bincount(rows, weights, len(table))
    kept_units = (np.floor(totals / bin_size) * bin_size * SCALE).astype(np.int64)
    kept = np.clip(kept_units[rows] - before, 0, reached - before) / SCALE
    held = kept > 0
    counts, positives = kept[held], (kept * outcomes)[held]
    return BinsTable.from_columns(table.campaigns, rows[held], scores[held], counts, positives)


def _reached(units: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """Samples of a campaign up to and before each of its cells, (k,), in fixed point."""
    running = np.cumsum(units)
    firsts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])[: len(rows)])
    opens = np.repeat(running[firsts] - units[firsts], np.diff(np.append(firsts, len(rows))))
    return running - opens, running - opens - units
