"""Equal-frequency bins of many campaigns at once, from the cells of a table of bins."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrators.bins import cell_means
from calibrators.bins_table import BinsTable
from calibrators.campaign_cuts import bin_counts, inner_cuts, reaching, running_sums
from calibrators.grid import GRID
from calibrators.samples import Floats, Integers
from calibrators.score_bins import ScoreBins
from calibrators.tally import check_some


@dataclass(frozen=True, slots=True)
class CampaignBins:
    """Bins of all campaigns end to end; those of campaign i stand at offsets[i]:offsets[i + 1]."""

    bins: ScoreBins
    offsets: Integers

    @classmethod
    def of_table(cls, table: BinsTable, bin_size: float) -> "CampaignBins":
        """`bins_of_cells` of each campaign of the table, to the last bit."""
        held = table.counts > 0
        offsets = np.concatenate(([0], np.cumsum(held)))[table.offsets]
        # As one campaign without samples is refused.
        check_some(float(np.diff(offsets).min()))
        return _Cells(table.cells[held], *cell_means(table.cells, table.sums), offsets).cut(
            bin_size
        )

    @classmethod
    def end_to_end(cls, parts: Sequence["CampaignBins"]) -> "CampaignBins":
        """The bins of all parts, one part behind the other."""
        counts = [np.diff(part.offsets) for part in parts]
        offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))
        return cls(ScoreBins.end_to_end([part.bins for part in parts]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pooled(self, starts: Integers) -> "CampaignBins":
        """Adjacent bins put together; no pool reaches over two campaigns."""
        return CampaignBins(self.bins.pooled(starts), np.searchsorted(starts, self.offsets))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells that hold samples, (m,) each, and where those of each campaign begin, (c + 1,)."""

    cells: Integers
    means: Floats
    outcomes: Floats
    weights: Floats
    offsets: Integers

    def cut(self, bin_size: float) -> CampaignBins:
        lower, upper = GRID.edges(self.cells)
        means = np.clip(self.means, lower, upper)
        spread = np.minimum(means - lower, upper - means)
        first, last = self.offsets[:-1], self.offsets[1:] - 1
        columns = np.stack((self.weights, self.weights * means, self.weights * self.outcomes))
        reached, score_sums, positives = running_sums(columns, self.offsets)
        counts = bin_counts(reached[last], bin_size, last - first + 1)
        campaigns, cuts = inner_cuts(reached[last], counts)
        cell = reaching(reached, self.offsets, campaigns, cuts)
        left = (reached[cell] - cuts) / self.weights[cell]
        edges = means[cell] + spread[cell] * (1 - 2 * left)
        next_cell = np.minimum(cell + 1, last[campaigns])
        following = np.where(left > 0, edges, (means - spread)[next_cell])
        above = self.weights[cell] * left * (means[cell] + spread[cell] * (1 - left))
        clicked = self.weights[cell] * left * self.outcomes[cell]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        ends = _Ends(offsets)
        bins = ScoreBins(
            ends.after((means - spread)[first], following),
            ends.before(edges, (means + spread)[last]),
            ends.steps(cuts, reached[last]),
            ends.sums(score_sums, cell, above, last),
            ends.sums(positives, cell, clicked, last),
        )
        return CampaignBins(bins, offsets)


class _Ends:
    """Columns of all bins, (k,), out of one entry for each cut and one for each campaign."""

    def __init__(self, offsets: Integers) -> None:
        self._is_first = np.zeros(offsets[-1], bool)
        self._is_first[offsets[:-1]] = True
        self._is_last = np.zeros(offsets[-1], bool)
        self._is_last[offsets[1:] - 1] = True

    def after(self, outermost: Floats, inner: Floats) -> Floats:
        """What stands at the lower end of each bin."""
        return _merged(self._is_first, outermost, inner)

    def before(self, inner: Floats, outermost: Floats) -> Floats:
        """What stands at the upper end of each bin."""
        return _merged(self._is_last, outermost, inner)

    def steps(self, reached: Floats, totals: Floats) -> Floats:
        """Differences of 0, the values reached and the total, campaign by campaign."""
        return self.before(reached, totals) - self.after(np.zeros(len(totals)), reached)

    def sums(self, reached: Floats, cell: Integers, above: Floats, last: Integers) -> Floats:
        """Sums between the cuts, where `above` is the part of the cut cell above its cut."""
        return np.maximum(self.steps(reached[cell] - above, reached[last]), 0.0)


def _merged(outer: NDArray[np.bool_], outermost: Floats, inner: Floats) -> Floats:
    merged = np.empty(len(outer))
    merged[outer], merged[~outer] = outermost, inner
    return merged
