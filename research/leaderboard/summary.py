"""From the results of seeds to what is shown and kept of a regime or a log."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from evaluation.bootstrap.blocks import effective_number
from evaluation.bootstrap.paired import Difference
from research.leaderboard import Results
from research.leaderboard.result_file import (
    CPU,
    EXCESS,
    GC_3,
    GC_3_TRUE,
    LOG_LOSS,
    PCOC,
    Interval,
    ResampledBlocks,
    TrafficResult,
)
from research.leaderboard.targets import DEFAULT_METHOD
from research.leaderboard.tasks import TaskResult

DRAWS: Final = 1000
_OF_TRUTH: Final = (EXCESS, GC_3_TRUE)


def traffic_result(
    name: str, about: str, campaigns: int, done: Sequence[TaskResult], draws: int
) -> TrafficResult:
    """The figures of all seeds together, of each by itself, and the default method's
    differences from the others, with intervals over blocks."""
    results = Results.merge([each.results for each in done])
    by_seed = {who: [_metrics(each, who) for each in done] for who in results.methods}
    weights = np.concatenate([each.counts for each in results.by_seed])
    return TrafficResult(
        name=name,
        about=about,
        truth_known=results.knows_truth,
        seeds=list(results.seeds),
        campaigns=campaigns,
        hours=len(results.by_seed[0].hour_counts),
        impressions=results.impressions,
        positives=results.positives,
        rows={who: _of_all(results, done, who) for who in results.methods},
        by_seed={
            who: {metric: [of_seed[metric] for of_seed in found] for metric in found[0]}
            for who, found in by_seed.items()
        },
        missing=dict(results.unavailable),
        differences=_against(results, draws, ratio=False),
        ratios=_against(results, draws, ratio=True),
        blocks=ResampledBlocks(len(weights), results.unit, effective_number(weights), draws),
    )


def _metrics(done: TaskResult, who: str) -> dict[str, float]:
    return {**_of_results(done.results, who), CPU: done.cpu[who]}


def _of_all(results: Results, done: Sequence[TaskResult], who: str) -> dict[str, float]:
    """Of all seeds together; the CPU is that of one."""
    return {**_of_results(results, who), CPU: float(np.mean([each.cpu[who] for each in done]))}


def _of_results(results: Results, who: str) -> dict[str, float]:
    found = {
        EXCESS: results.excess,
        GC_3_TRUE: results.gc_3_true,
        GC_3: results.gc_3,
        LOG_LOSS: results.log_loss,
        PCOC: results.pcoc,
    }
    return {
        metric: of(who)
        for metric, of in found.items()
        if results.knows_truth or metric not in _OF_TRUTH
    }


def _against(results: Results, draws: int, *, ratio: bool) -> dict[str, dict[str, Interval]]:
    if DEFAULT_METHOD not in results.methods:
        return {}
    others = [who for who in results.methods if who != DEFAULT_METHOD]
    return {who: dict(_ends(_compared(results, who, draws, ratio=ratio))) for who in others}


def _compared(results: Results, who: str, draws: int, *, ratio: bool) -> Mapping[str, Difference]:
    losses = results.compare(DEFAULT_METHOD, who, ratio=ratio, draws=draws)
    errors = results.compare_errors(DEFAULT_METHOD, who, ratio=ratio, draws=draws)
    if not results.knows_truth:
        return {LOG_LOSS: losses, GC_3: errors}
    found = {EXCESS: losses, GC_3_TRUE: errors}
    if not ratio:
        found[LOG_LOSS] = results.compare_log_loss(DEFAULT_METHOD, who, draws=draws)
    return found


def _ends(differences: Mapping[str, Difference]) -> dict[str, Interval]:
    return {
        metric: Interval(found.value, found.lower, found.upper)
        for metric, found in differences.items()
    }
