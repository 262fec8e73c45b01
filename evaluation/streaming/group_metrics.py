"""The metrics of all slices of one grouping, from its sums and its sorted cells of scores.

Two kernels differ from those of samples because a log may be too long for them: the floor under
Cal-N draws the positives of bins and not of samples, and means weight by shares.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.metrics.auc import roc_areas
from evaluation.metrics.cal_n import Empty, EqualFrequencyBins, cal_n_of_bins
from evaluation.metrics.cs_auc_pairs import RevenuePairs
from evaluation.metrics.gc_n import POSITIVES_PER_BIN, mean_of_defined
from evaluation.metrics.loss import click_entropy
from evaluation.metrics.ranks import Runs
from evaluation.metrics.reliability import wilson_interval
from evaluation.metrics.sums import quotients
from evaluation.streaming.in_memory import RevenueRows
from evaluation.streaming.rows import CellRows, Sums

_MOST_DRAWN, _FEWEST_DRAWS, _MOST_DRAWS = 500_000, 20, 400
_DRAWN_TOGETHER = 1 << 15
"""So many bins at a time: they fit into a cache, and numpy is called seldom."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupCalibration:
    """Cal-N of each slice, (slices,); nan for those that have too few positives for it.

    values : Cal-N of the probabilities.
    floors : mean Cal-N of the probabilities if they were the truth, over draws of the outcomes.
    samples : weight of each slice.
    """

    values: Floats
    floors: Floats
    samples: Floats

    @classmethod
    def of(
        cls,
        runs: Runs,
        positives: Floats,
        n: int,
        rng: np.random.Generator,
        empty: Empty = "merge",
        positives_per_bin: float = POSITIVES_PER_BIN,
        draws: int | None = None,
    ) -> Self:
        """Cal-N with n bins; positives, (r,), are the weighted outcomes of each run.

        As in `grouped_cal_n`, a slice with fewer positives than `positives_per_bin` in each of
        its bins is left out. `draws` of the outcomes make the floors; by
        the number of slices unless given.
        """
        bins = EqualFrequencyBins.of(runs, n)
        expected = bins.sums(runs.expected)
        values = cal_n_of_bins(expected, bins.sums(positives), empty)
        enough = runs.group_sums(positives) >= positives_per_bin * n
        defined = enough & (runs.sample_counts >= n) & ~np.isnan(values)
        certain = bins.sums(runs.expected * runs.probabilities)
        floors = np.full(len(values), np.nan)
        floors[defined] = _floors(expected[defined], certain[defined], rng, draws)
        return cls(np.where(defined, values, np.nan), floors, runs.group_sums(runs.weights))


def _floors(
    expected: Floats, certain: Floats, rng: np.random.Generator, draws: int | None
) -> Floats:
    """Mean Cal-N over outcomes drawn from the probabilities of each bin, (slices,).

    Of the probabilities p of a bin, (slices, bins), are given the sums of p and of p ** 2. The
    number of positives is drawn from the binomial distribution that has its mean and variance.
    """
    trials, chances = _binomials(expected, certain)
    size = max(1, expected.size)
    draws = draws or int(np.clip(_MOST_DRAWN // size, _FEWEST_DRAWS, _MOST_DRAWS))
    total, defined = np.zeros(len(expected)), np.zeros(len(expected))
    together = max(1, _DRAWN_TOGETHER // size)
    for first in range(0, draws, together):
        many = min(together, draws - first)
        actual = rng.binomial(trials, chances, (many, *trials.shape)).astype(np.float64)
        tiled = np.tile(expected, (many, 1))
        found = cal_n_of_bins(tiled, actual.reshape(tiled.shape), "merge")
        # One after the other, so that how many are drawn together changes no bit.
        for drawn in found.reshape(many, len(expected)):
            total += np.nan_to_num(drawn)
            defined += ~np.isnan(drawn)
    with np.errstate(invalid="ignore"):
        return total / defined


def _binomials(expected: Floats, certain: Floats) -> tuple[Integers, Floats]:
    with np.errstate(divide="ignore", invalid="ignore"):
        # The variance is sum p (1 - p), and that of a binomial trials * chance * (1 - chance).
        trials = np.rint(expected**2 / certain)
        chances = np.minimum(expected / trials, 1.0)
    drawn: NDArray[np.bool_] = (expected > 0.0) & np.isfinite(trials)
    return np.where(drawn, trials, 0.0).astype(np.int64), np.where(drawn, chances, 0.0)


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
