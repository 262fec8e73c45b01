"""Every metric of a streamed log: over all of it, and for every slice of every grouping."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from calibrators.samples import Floats
from evaluation.metrics.auc import roc_areas
from evaluation.metrics.cal_n import Empty
from evaluation.metrics.calibrated_loss import calibrated_and_plain
from evaluation.metrics.calibration import click_entropy
from evaluation.metrics.cs_auc_pairs import RevenuePairs
from evaluation.metrics.gc_n import (
    POSITIVES_PER_BIN,
    GroupCalibration,
    mean_of_defined,
    share_of_undefined,
)
from evaluation.metrics.predictions import Mask, Runs, quotients
from evaluation.metrics.reliability import (
    ReliabilityDiagram,
    ScoreQuantiles,
    reliability_diagram,
    score_quantiles,
)
from evaluation.streaming.in_memory import RevenueRows
from evaluation.streaming.log import OVERALL, Groupings, StreamedLog
from evaluation.streaming.rows import CellRows, Sums


def group_ratios(sums: Sums, confidence: float = 0.95) -> dict[str, Floats]:
    """What each metric of this package that is a ratio of sums gives for each slice, (slices,).

    n, positives, pcoc, copc, prediction_error, ropr, log_loss, rig, mse, nmse and mae are those of
    the functions of that name. `pcoc_lower` and `pcoc_upper` are where PCOC may lie by chance: the
    mean probability over the ends of the exact interval of the rate. `expected` and `bids` are the
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
    rare as one likes. The interval of the rate leaves out the truth no more often than it says,
    also of few positives, where that of Wilson is too short.

    Source: Clopper and Pearson, Biometrika 26, 1934.
    """
    held, tail = weight > 0.0, 0.5 * (1.0 - confidence)
    weight = np.where(held, weight, 1.0)
    negatives = np.maximum(weight - positives, 0.0)
    low = np.where(positives > 0.0, betaincinv(positives, negatives + 1.0, tail), 0.0)
    high = np.where(negatives > 0.0, betaincinv(positives + 1.0, negatives, 1.0 - tail), 1.0)
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
        pairs = RevenuePairs(rows.revenues, revenue, rows.weights, rows.slices, size)
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
    rule: tuple[Empty, float] = ("inf", 0.0) if strict else ("merge", POSITIVES_PER_BIN)
    calibration = {
        n: GroupCalibration(runs, positives, n, np.random.default_rng(seed), *rule) for n in BINS
    }
    for n, found in calibration.items():
        columns[f"cal_{n}"], columns[f"cal_{n}_floor"] = found.values, found.floors
    error = mean_of_defined(errors, sums.weights)
    return GroupMetrics(columns, calibration, rows.cells_per_octave, error, sums.bids)


def _bias_halves(
    rows: CellRows, share: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Mask]:
    """Probabilities, outcomes of 0 or 1, weights and bias rows, (4 r,), for `calibrated_losses`.

    Every row in four: its positives and negatives, drawn for the bias and not. Each sample is drawn
    by chance, `share` of them; weights are whole. Samples of one row part as they would if they
    stood apart. Those with fractional outcomes keep the mean of their row.
    """
    drawn, clicks = _drawn(rows.positives, rows.weights, share, rng)
    parts = (clicks, drawn - clicks, rows.positives - clicks)
    weights = (*parts, rows.weights - sum(parts))
    return (
        np.tile(rows.scores, 4),
        np.repeat((1.0, 0.0, 1.0, 0.0), len(rows)),
        np.maximum(np.concatenate(weights), 0.0),
        np.repeat((True, True, False, False), len(rows)),
    )


def _drawn(
    positives: Floats, weights: Floats, share: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Weight and positives of each row that are drawn."""
    if np.equal(positives, np.floor(positives)).all():
        clicks = rng.binomial(positives.astype(np.int64), share).astype(np.float64)
        return clicks + _chosen(weights - positives, share, rng), clicks
    drawn = _chosen(weights, share, rng)
    return drawn, positives * (drawn / weights)


def _chosen(weights: Floats, share: float, rng: np.random.Generator) -> Floats:
    """How much of each weight is drawn; what is less than a sample by itself."""
    whole = np.floor(weights)
    drawn = rng.binomial(whole.astype(np.int64), share).astype(np.float64)
    rest = weights - whole
    return drawn + rest * (rng.random(len(rest)) < share) if rest.any() else drawn


_ENOUGH_ROWS = 250_000
"""So many rows are enough for quantiles and shifts: cells of some 1 / 10,000 of an octave move no
digit that is shown."""
_BIAS_SHARE = 0.1
_POSITIVES_PER_POINT, _FEWEST_POINTS, _MOST_POINTS = 25, 3, 12


@dataclass(frozen=True, slots=True, eq=False)
class OverallMetrics:
    """Numbers by the names they have in JSON, and curves."""

    numbers: Mapping[str, float]
    quantiles: ScoreQuantiles
    reliability: ReliabilityDiagram


def overall_metrics(rows: CellRows, quantiles: int, seed: int) -> OverallMetrics:
    """Calibrated losses, quantiles and the reliability diagram of all rows."""
    few = rows.within(_ENOUGH_ROWS)
    p, y, w = few.scores, few.outcomes, few.weights
    points = int(few.positives.sum() / _POSITIVES_PER_POINT)
    points = int(np.clip(points, _FEWEST_POINTS, _MOST_POINTS))
    halves = _bias_halves(few, _BIAS_SHARE, np.random.default_rng(seed))
    return OverallMetrics(
        calibrated_and_plain(*halves),
        score_quantiles(p, y, quantiles, sample_weight=w),
        reliability_diagram(p, y, points, sample_weight=w),
    )


Advance = Callable[[str], None]
_DRAWN_ROWS = 500_000


@dataclass(frozen=True, slots=True, eq=False)
class LogMetrics:
    """What is measured of a log.

    overall : metrics of all rows, by the names they have in JSON; nan where undefined.
    groupings : the metrics of the slices of every grouping.
    quantiles : errors by score quantile.
    reliability : the reliability diagram of all rows.
    campaigns, groups : the groupings that GC-N, and GAUC and gcsAUC, average over, or None.
    sketch : the cells by campaign, few enough to draw; of the whole log without campaigns.
    """

    overall: Mapping[str, float]
    groupings: Mapping[str, GroupMetrics]
    quantiles: ScoreQuantiles
    reliability: ReliabilityDiagram
    campaigns: str | None
    groups: str | None
    sketch: CellRows


def log_metrics(
    log: StreamedLog,
    groupings: Groupings,
    *,
    quantiles: int = 10,
    seed: int = 0,
    advance: Advance = lambda _: None,
    workers: int = 1,
) -> LogMetrics:
    """Measure a log of at least one row; its groupings are those of `groupings`.

    `seed` draws the samples that calibrated losses take the bias from, and the outcomes of the
    floors under Cal-N. `advance` is called with every grouping that is done. `workers` threads
    measure so many groupings at a time; the numbers do not depend on it.
    """
    rows_of = log.cells()
    whole: list[OverallMetrics] = []
    sketch: list[CellRows] = []

    def measured(grouping: str) -> GroupMetrics:
        rows = rows_of(grouping)
        if grouping == OVERALL:
            whole.append(overall_metrics(rows, quantiles, seed))
        if grouping == (groupings.campaigns or OVERALL):
            sketch.append(rows.within(_DRAWN_ROWS))
        sums = log.sums(grouping, groupings.sizes[grouping])
        found = measure_groups(rows, sums, seed, strict=grouping == OVERALL)
        advance(grouping)
        return found

    with ThreadPoolExecutor(workers) as pool:
        found = dict(zip(log.groupings, pool.map(measured, log.groupings), strict=True))
    _add_cs_auc(log, found, advance, workers)
    return LogMetrics(
        _overall(found, whole[0], groupings),
        found,
        whole[0].quantiles,
        whole[0].reliability,
        groupings.campaigns,
        groupings.groups,
        sketch[0],
    )


def _add_cs_auc(
    log: StreamedLog, found: Mapping[str, GroupMetrics], advance: Advance, workers: int
) -> None:
    if not log.ranked_groupings:
        return
    rows_of = log.revenue_rows()

    def add(grouping: str) -> None:
        found[grouping].add_cs_auc(rows_of(grouping))
        advance(grouping)

    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(add, log.ranked_groupings):
            pass


def _overall(
    found: Mapping[str, GroupMetrics], whole: OverallMetrics, groupings: Groupings
) -> dict[str, float]:
    numbers = {name: float(column[0]) for name, column in found[OVERALL].columns.items()}
    numbers |= whole.numbers
    if groupings.campaigns is not None:
        numbers |= _gc_n(found[groupings.campaigns])
    if groupings.groups is not None:
        bids = float(found[OVERALL].bids[0])
        numbers |= _grouped(found[groupings.groups], numbers["n"], bids)
    if groupings.mainline is not None:
        numbers["mainline_auc"] = float(found[groupings.mainline].columns["auc"][0])
    return numbers


def _gc_n(campaigns: GroupMetrics) -> dict[str, float]:
    numbers = {}
    for n, calibration in campaigns.calibration.items():
        values, samples = calibration.values, calibration.samples
        numbers[f"gc_{n}"] = mean_of_defined(values, samples)
        numbers[f"gc_{n}_floor"] = mean_of_defined(calibration.floors, samples)
        numbers[f"gc_{n}_left_out"] = share_of_undefined(values, samples)
    return numbers


def _grouped(groups: GroupMetrics, samples: float, bids: float) -> dict[str, float]:
    """GAUC and gcsAUC, and what of all samples and bids is in no group that counts."""
    columns, numbers = groups.columns, dict[str, float]()
    for name, mean in (("auc", "gauc"), ("cs_auc", "gcs_auc")):
        if name in columns:
            kept = ~np.isnan(columns[name])
            numbers[mean] = mean_of_defined(columns[name], columns["n"])
            numbers[f"{mean}_left_out"] = 1.0 - float(columns["n"][kept].sum()) / samples
    if "cs_auc" in columns:
        paid = float(groups.bids[~np.isnan(columns["cs_auc"])].sum())
        numbers["gcs_auc_bids_left_out"] = 1.0 - paid / bids if bids > 0.0 else float("nan")
    return numbers
