"""Every metric of a log: over all of it, and for every slice of every cut."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from evaluation.compact.compact_log import CompactLog
from evaluation.compact.compact_rows import CompactRows
from evaluation.compact.cut_metrics import CutMetrics, cut_metrics
from evaluation.compact.log_cuts import OVERALL, LogCuts
from evaluation.compact.overall_metrics import OverallMetrics, overall_metrics
from evaluation.reliability import ReliabilityDiagram
from evaluation.score_quantiles import ScoreQuantiles

Advance = Callable[[str], None]
_DRAWN_ROWS = 500_000


@dataclass(frozen=True, slots=True, eq=False)
class LogMetrics:
    """What is measured of a log.

    Attributes
    ----------
    overall : metrics of all rows, by the names they have in JSON; nan where undefined.
    cuts : the metrics of the slices of every cut.
    quantiles : errors by score quantile.
    reliability : the reliability diagram of all rows.
    campaigns, groups : names of the cuts that GC-N, and GAUC and gcsAUC, average over, or None.
    sketch : the rows by campaign, few enough to draw; the whole log where it has no campaigns.
    """

    overall: Mapping[str, float]
    cuts: Mapping[str, CutMetrics]
    quantiles: ScoreQuantiles
    reliability: ReliabilityDiagram
    campaigns: str | None
    groups: str | None
    sketch: CompactRows


def log_metrics(
    log: CompactLog,
    cuts: LogCuts,
    *,
    quantiles: int = 10,
    seed: int = 0,
    advance: Advance = lambda _: None,
    workers: int = 1,
) -> LogMetrics:
    """Measure a log of at least one row; its cuts are those of `cuts`.

    `seed` draws the samples that calibrated losses take the bias from, and the outcomes of the
    floors under Cal-N. `advance` is told of every cut that is done. `workers` threads measure so
    many cuts at a time; the numbers do not depend on it.
    """
    rows_of = log.compact_rows()
    whole: list[OverallMetrics] = []
    sketch: list[CompactRows] = []

    def measured(cut: str) -> CutMetrics:
        rows = rows_of(cut)
        if cut == OVERALL:
            whole.append(overall_metrics(rows, quantiles, seed))
        if cut == (cuts.campaigns or OVERALL):
            sketch.append(rows.within(_DRAWN_ROWS))
        sums = log.sums(cut, cuts.sizes[cut])
        found = cut_metrics(rows, sums, seed, strict=cut == OVERALL)
        advance(cut)
        return found

    with ThreadPoolExecutor(workers) as pool:
        found = dict(zip(log.cuts, pool.map(measured, log.cuts), strict=True))
    _add_cs_auc(log, found, advance, workers)
    return LogMetrics(
        _overall(found, whole[0], cuts),
        found,
        whole[0].quantiles,
        whole[0].reliability,
        cuts.campaigns,
        cuts.groups,
        sketch[0],
    )


def _add_cs_auc(
    log: CompactLog, found: Mapping[str, CutMetrics], advance: Advance, workers: int
) -> None:
    if not log.ranked_cuts:
        return
    rows_of = log.revenue_rows()

    def add(cut: str) -> None:
        found[cut].add_cs_auc(rows_of(cut))
        advance(cut)

    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(add, log.ranked_cuts):
            pass


def _overall(
    found: Mapping[str, CutMetrics], whole: OverallMetrics, cuts: LogCuts
) -> dict[str, float]:
    numbers = {name: float(column[0]) for name, column in found[OVERALL].columns.items()}
    numbers |= whole.numbers
    if cuts.campaigns is not None:
        numbers |= _gc_n(found[cuts.campaigns])
    if cuts.groups is not None:
        bids = float(found[OVERALL].bids[0])
        numbers |= _grouped(found[cuts.groups], numbers["n"], bids)
    if cuts.mainline is not None:
        numbers["mainline_auc"] = float(found[cuts.mainline].columns["auc"][0])
    return numbers


def _gc_n(campaigns: CutMetrics) -> dict[str, float]:
    numbers = {}
    for n, calibration in campaigns.calibration.items():
        numbers[f"gc_{n}"] = calibration.mean
        numbers[f"gc_{n}_floor"] = calibration.mean_floor
        numbers[f"gc_{n}_left_out"] = calibration.share_left_out
    return numbers


def _grouped(groups: CutMetrics, samples: float, bids: float) -> dict[str, float]:
    """GAUC and gcsAUC, and what of all samples and bids is in no group that counts."""
    columns = groups.columns
    numbers = {"gauc": groups.mean("auc"), "gauc_left_out": groups.left_out("auc", samples)}
    if "cs_auc" in columns:
        numbers["gcs_auc"] = groups.mean("cs_auc")
        numbers["gcs_auc_left_out"] = groups.left_out("cs_auc", samples)
        kept = float(groups.bids[~np.isnan(columns["cs_auc"])].sum())
        numbers["gcs_auc_bids_left_out"] = 1.0 - kept / bids if bids > 0.0 else float("nan")
    return numbers
