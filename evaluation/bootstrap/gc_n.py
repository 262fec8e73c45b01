"""GC-N in every draw of blocks."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.bootstrap.blocks import Blocks
from evaluation.bootstrap.cells import CELL_SPAN, BlockCells, CellMatrix
from evaluation.metrics.bias import Mask
from evaluation.metrics.cal_n import bin_errors, root_mean_square

_POSITIVES_PER_BIN = 5.0


@dataclass(frozen=True, eq=False)
class BlockGcN:
    """`gc_n`, by its defaults, in every draw.

    Attributes
    ----------
    matrix : the cells of each campaign, one campaign after the other.
    bounds : (campaigns + 1,) the cells of campaign j are bounds[j]:bounds[j + 1].
    whole : (campaigns,) whether all weights of its rows are whole numbers.
    snapped : whether a cut goes to the nearer end of a cell lighter than half a bin. Where cells
        stand for several probabilities, dividing one would divide a positive that the samples
        give to one side, and a bin with a hundredth of a positive has an error of a hundred.
    n : bins of each campaign.
    """

    matrix: CellMatrix
    bounds: Integers
    whole: Mask
    snapped: bool
    n: int

    @classmethod
    def of(
        cls,
        cells: BlockCells,
        blocks: Blocks,
        campaigns: NDArray[np.integer],
        weights: Floats,
        n: int,
    ) -> Self:
        """Of n bins in each campaign.

        campaigns, (n_rows,), are whole numbers from 0 up, each block being of one of them;
        weights, (n_rows,), are the rows'.
        """
        owners = np.zeros(blocks.count, np.int64)
        owners[blocks.codes] = campaigns
        size = int(owners.max(initial=-1)) + 1
        broken = np.bincount(campaigns, weights != np.floor(weights), size)
        matrix = cells.within(owners)
        bounds = np.searchsorted(matrix.keys // CELL_SPAN, np.arange(size + 1))
        return cls(matrix, bounds, broken == 0.0, not cells.exact, n)

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        at_once = self.matrix.at_once
        starts = range(0, len(multiplicities), at_once)
        parts = [self._of(multiplicities[at : at + at_once]) for at in starts]
        return np.concatenate(parts)

    def _of(self, multiplicities: Floats) -> Floats:
        sums = self.matrix.drawn(multiplicities)
        columns = (_running(values) for values in (sums.weights, sums.positives, sums.expected))
        return np.array([self._one(*draw) for draw in zip(*columns, strict=True)])

    def _one(self, weights: Floats, positives: Floats, expected: Floats) -> float:
        """GC-N of one draw, from running sums over the cells, (cells + 1,) each."""
        opens = weights[self.bounds[:-1]]
        totals = weights[self.bounds[1:]] - opens
        clicks = np.diff(positives[self.bounds])
        kept = np.flatnonzero(clicks >= _POSITIVES_PER_BIN * self.n)
        if not len(kept):
            return float("nan")
        places, shares = self._cuts(weights, opens[kept], totals[kept], kept)
        actual = _between(positives, places, shares)
        errors = bin_errors(_between(expected, places, shares), actual, "merge")
        return float(np.average(root_mean_square(errors), weights=totals[kept]))

    def _cuts(
        self, weights: Floats, opens: Floats, totals: Floats, kept: Integers
    ) -> tuple[Integers, Floats]:
        """The cell that each cut of the campaigns kept passes through, (kept, n + 1), and the
        share of it that is below; where `EqualFrequencyBins` cuts."""
        small = totals / self.n
        small = np.where(self.whole[kept], np.floor(small), small)[:, np.newaxis]
        larger = totals[:, np.newaxis] - self.n * small
        k = np.arange(self.n + 1)
        at = opens[:, np.newaxis] + small * k + np.minimum(larger, k)
        first, behind = self.bounds[kept, np.newaxis], self.bounds[kept + 1, np.newaxis]
        places = np.searchsorted(weights, at, side="right") - 1
        places = np.clip(places, first, behind - 1)
        # The cuts at the ends are those ends, whatever rounding made of their sums.
        places[:, -1] = behind[:, 0] - 1
        held = weights[places + 1] - weights[places]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(held > 0.0, np.clip((at - weights[places]) / held, 0.0, 1.0), 0.0)
        if self.snapped:
            light = held <= 0.5 * totals[:, np.newaxis] / self.n
            shares = np.where(light, np.rint(shares), shares)
        shares[:, -1] = 1.0
        return places, shares


def _running(values: Floats) -> Floats:
    """Sums of what comes before each cell, and of all, draw by draw: (k, d) to (d, k + 1)."""
    sums = np.zeros((values.shape[1], values.shape[0] + 1))
    np.cumsum(np.ascontiguousarray(values.T), axis=1, out=sums[:, 1:])
    return sums


def _between(running: Floats, places: Integers, shares: Floats) -> Floats:
    """What lies between neighbouring cuts, (kept, n)."""
    reached = running[places] + shares * (running[places + 1] - running[places])
    return np.diff(reached, axis=1)
