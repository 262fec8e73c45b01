"""The metrics of all slices of one grouping, from its sums and its sorted cells of scores.

Means weight by shares, unlike those of samples, for a log may be too long for them.
"""

from dataclasses import dataclass

import numpy as np

from calibrators.samples import Floats
from evaluation.metrics.auc import roc_areas
from evaluation.metrics.cal_n import Empty
from evaluation.metrics.cs_auc_pairs import RevenuePairs
from evaluation.metrics.gc_n import POSITIVES_PER_BIN, GroupCalibration, mean_of_defined
from evaluation.metrics.loss import click_entropy
from evaluation.metrics.ranks import Runs
from evaluation.metrics.reliability import wilson_interval
from evaluation.metrics.sums import quotients
from evaluation.streaming.in_memory import RevenueRows
from evaluation.streaming.rows import CellRows, Sums


def group_ratios(sums: Sums, confidence: float = 0.95) -> dict[str, Floats]:
    """What each metric of this package that is a ratio of sums gives for each slice, (slices,).

    n, positives, pcoc, copc, prediction_error, ropr, log_loss, rig, mse, nmse and mae are those of
    the functions of that name. `pcoc_lower` and `pcoc_upper` are where PCOC may lie by chance: the
    mean probability over the ends of Wilson's interval of the rate. `expected` and `bids` are the
    sums of the probabilities and of the bids.
    """
    weights, positives = sums.weights, sums.positives
    negatives = weights - positives
    both = (positives > 0.0) & (negatives > 0.0)
    chance = quotients(positives, weights) * quotients(negatives, weights)
    lower, upper = pcoc_interval(weights, positives, sums.expected, confidence)
    return {
        "n": weights,
        "positives": positives,
        "expected": sums.expected,
        "pcoc": sums.pcoc,
        "pcoc_lower": lower,
        "pcoc_upper": upper,
        "copc": sums.copc,
        "prediction_error": sums.prediction_error,
        "ropr": quotients(sums.revenue, sums.expected_revenue),
        "log_loss": sums.log_loss,
        "rig": sums.rig(np.where(both, click_entropy(positives, negatives), np.nan)),
        "mse": sums.mse,
        "nmse": quotients(sums.mse, np.where(both, chance, np.nan)),
        "mae": quotients(sums.distances, weights),
        "bids": sums.bids,
    }


def pcoc_interval(
    weight: Floats, positives: Floats, expected: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Where the PCOC of each slice may lie by chance, from its sums, (slices,).

    Both ends are nan without samples. The upper end is infinite without positives: they may be as
    rare as one likes.
    """
    held = weight > 0.0
    weight = np.where(held, weight, 1.0)
    low, high = wilson_interval(np.minimum(positives / weight, 1.0), weight, confidence)
    # Of the few last digits that the interval of a rate of 0 leaves.
    low = np.where(positives > 0.0, low, 0.0)
    mean = expected / weight
    ends = quotients(mean, high), quotients(mean, low)
    return np.where(held, ends[0], np.nan), np.where(held, ends[1], np.nan)


BINS = (3, 4, 5)
TOP_OF_RANKING = 0.1
"""Partial AUC is over false positive rates from 0 to this."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupMetrics:
    """What is measured of each slice.

    columns : the metrics, (slices,) each, by the names they have in JSON; nan where undefined.
    calibration : Cal-N of the slices that have enough positives, for each N.
    cells_per_octave : score cells from a score to its double; None when every score is exact.
    auc_error : by how much the AUC of a slice may be wrong at most, in the mean over samples.
    bids : sum of the bids of each slice, (slices,).
    """

    columns: dict[str, Floats]
    calibration: dict[int, GroupCalibration]
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


def measure_groups(rows: CellRows, sums: Sums, seed: int, *, strict: bool = False) -> GroupMetrics:
    """The metrics of all slices but csAUC; the sums tell how many slices there are.

    If `strict`, Cal-N is as in `cal_n`: a bin without positives makes it infinite, and few
    positives are no reason to leave it out.
    """
    columns = group_ratios(sums)
    size = len(sums.weights)
    runs = Runs.of(rows.scores, rows.weights, rows.slices, size)
    positives = runs.sums(rows.positives)
    columns["auc"], columns["partial_auc"] = roc_areas(runs, positives, 1.0, TOP_OF_RANKING)
    errors = rows.auc_errors(size)
    if rows.dropped:
        columns["auc_error_at_most"] = errors
    calibration = _calibration(runs, positives, seed, strict)
    for n, found in calibration.items():
        columns[f"cal_{n}"], columns[f"cal_{n}_floor"] = found.values, found.floors
    error = mean_of_defined(errors, sums.weights)
    return GroupMetrics(columns, calibration, rows.cells_per_octave, error, sums.bids)


def _calibration(
    runs: Runs, positives: Floats, seed: int, strict: bool
) -> dict[int, GroupCalibration]:
    rule: tuple[Empty, float] = ("inf", 0.0) if strict else ("merge", POSITIVES_PER_BIN)
    return {
        n: GroupCalibration.of(runs, positives, n, np.random.default_rng(seed), *rule) for n in BINS
    }
