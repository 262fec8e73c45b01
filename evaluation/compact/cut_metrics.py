"""The metrics of all slices of one cut."""

from dataclasses import dataclass

import numpy as np

from calibrators.samples import Floats
from evaluation.bin_error import Empty
from evaluation.compact.compact_rows import CompactRows
from evaluation.compact.revenue_rows import RevenueRows
from evaluation.compact.slice_calibration import POSITIVES_PER_BIN, SliceCalibration
from evaluation.compact.slice_losses import slice_losses
from evaluation.compact.slice_ranking import roc_areas
from evaluation.compact.slice_sums import Sums
from evaluation.group_mean import mean_of_defined
from evaluation.revenue_pairs import RevenuePairs
from evaluation.runs import Runs

BINS = (3, 4, 5)
TOP_OF_RANKING = 0.1
"""Partial AUC is over false positive rates from 0 to this."""


@dataclass(frozen=True, slots=True, eq=False)
class CutMetrics:
    """What is measured of each slice.

    Attributes
    ----------
    columns : the metrics, (slices,) each, by the names they have in JSON; nan where undefined.
    calibration : Cal-N of the slices that have enough positives, for each N.
    cells_per_octave : score cells from a score to its double; None when every score is exact.
    auc_error : by how much the AUC of a slice may be wrong at most, in the mean over samples.
    bids : sum of the bids of each slice, (slices,).
    """

    columns: dict[str, Floats]
    calibration: dict[int, SliceCalibration]
    cells_per_octave: float | None
    auc_error: float
    bids: Floats

    def add_cs_auc(self, rows: RevenueRows) -> None:
        """Add the columns of csAUC."""
        size = len(self.columns["n"])
        errors = rows.errors(size)
        rows = rows.squeezed()
        revenue = np.where(rows.positive, rows.bids, 0.0)
        pairs = RevenuePairs.of(rows.revenues, revenue, rows.weights, rows.slices, size)
        self.columns["cs_auc"] = pairs.paid("definition")
        self.columns["cs_auc_worst"] = pairs.worst
        self.columns["cs_auc_tied_share"] = pairs.tied_share
        if rows.dropped:
            self.columns["cs_auc_error_at_most"] = errors

    def mean(self, column: str) -> float:
        """Mean of a column over the slices that have a value, by samples."""
        return mean_of_defined(self.columns[column], self.columns["n"])

    def left_out(self, column: str, samples: float) -> float:
        """Share of all samples that is in no slice with a value."""
        return 1.0 - float(self.columns["n"][~np.isnan(self.columns[column])].sum()) / samples


def cut_metrics(rows: CompactRows, sums: Sums, seed: int, *, strict: bool = False) -> CutMetrics:
    """The metrics of all slices but csAUC; the sums tell how many slices there are.

    If `strict`, Cal-N is as in `cal_n`: a bin without positives makes it infinite, and few
    positives are no reason to leave it out.
    """
    columns = dict(slice_losses(sums))
    size = len(sums.weight)
    runs = Runs.of(rows.scores, rows.weights, rows.slices, size)
    positives = runs.sums(rows.positives)
    columns["auc"], columns["partial_auc"] = roc_areas(runs, positives, 1.0, TOP_OF_RANKING)
    errors = rows.auc_errors(size)
    if rows.dropped:
        columns["auc_error_at_most"] = errors
    calibration = _calibration(runs, positives, seed, strict)
    for n, found in calibration.items():
        columns[f"cal_{n}"], columns[f"cal_{n}_floor"] = found.values, found.floors
    error = mean_of_defined(errors, sums.weight)
    return CutMetrics(columns, calibration, rows.cells_per_octave, error, sums.bids)


def _calibration(
    runs: Runs, positives: Floats, seed: int, strict: bool
) -> dict[int, SliceCalibration]:
    rule: tuple[Empty, float] = ("inf", 0.0) if strict else ("merge", POSITIVES_PER_BIN)
    return {
        n: SliceCalibration.of(runs, positives, n, np.random.default_rng(seed), *rule) for n in BINS
    }
