"""From the sums of plays to what is shown of a regime or a log."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from evaluation.bootstrap.blocks import effective_number
from evaluation.bootstrap.paired import Difference
from research.leaderboard import Played
from research.leaderboard.result import (
    CPU,
    EXCESS,
    GC_3,
    GC_3_TRUE,
    LOG_LOSS,
    PCOC,
    Blocks,
    Contested,
    Ends,
)
from research.leaderboard.targets import HERO
from research.leaderboard.tasks import Done

DRAWS: Final = 1000
_OF_TRUTH: Final = (EXCESS, GC_3_TRUE)


def contested(
    name: str, about: str, campaigns: int, rounds: Sequence[Done], draws: int
) -> Contested:
    """The figures of all rounds together, of each by itself, and the first contender's
    differences from the others, with intervals over campaign-days."""
    played = Played.merge([done.played for done in rounds])
    by_seed = {who: [_metrics(done, who) for done in rounds] for who in played.contenders}
    weights = np.concatenate([each.counts for each in played.rounds])
    return Contested(
        name=name,
        about=about,
        truth_known=played.knows_truth,
        seeds=list(played.seeds),
        campaigns=campaigns,
        hours=len(played.rounds[0].hours),
        impressions=played.impressions,
        positives=played.positives,
        rows={who: _of_all(played, rounds, who) for who in played.contenders},
        by_seed={
            who: {metric: [of_seed[metric] for of_seed in found] for metric in found[0]}
            for who, found in by_seed.items()
        },
        missing=dict(played.absent),
        differences=_against(played, draws, ratio=False),
        ratios=_against(played, draws, ratio=True),
        blocks=Blocks(len(weights), "campaign-days", effective_number(weights), draws),
    )


def _metrics(done: Done, who: str) -> dict[str, float]:
    found = _of_sums(done.played, who)
    if who in done.promised:
        found[PCOC] = done.promised[who] / (done.played.positives or np.nan)
    return {**found, CPU: done.cpu[who]}


def _of_all(played: Played, rounds: Sequence[Done], who: str) -> dict[str, float]:
    """Of all rounds together; the CPU is that of one."""
    found = _of_sums(played, who)
    if all(who in done.promised for done in rounds):
        promised = sum(done.promised[who] for done in rounds)
        found[PCOC] = promised / (played.positives or np.nan)
    return {**found, CPU: float(np.mean([done.cpu[who] for done in rounds]))}


def _of_sums(played: Played, who: str) -> dict[str, float]:
    found = {
        EXCESS: played.excess,
        GC_3_TRUE: played.gc_3_true,
        GC_3: played.gc_3,
        LOG_LOSS: played.log_loss,
    }
    return {
        metric: of(who)
        for metric, of in found.items()
        if played.knows_truth or metric not in _OF_TRUTH
    }


def _against(played: Played, draws: int, *, ratio: bool) -> dict[str, dict[str, Ends]]:
    if HERO not in played.contenders:
        return {}
    others = [who for who in played.contenders if who != HERO]
    return {who: dict(_ends(_compared(played, who, draws, ratio=ratio))) for who in others}


def _compared(played: Played, who: str, draws: int, *, ratio: bool) -> Mapping[str, Difference]:
    losses = played.compare(HERO, who, ratio=ratio, draws=draws)
    errors = played.compare_errors(HERO, who, ratio=ratio, draws=draws)
    if not played.knows_truth:
        return {LOG_LOSS: losses, GC_3: errors}
    found = {EXCESS: losses, GC_3_TRUE: errors}
    if not ratio:
        found[LOG_LOSS] = played.compare_log_loss(HERO, who, draws=draws)
    return found


def _ends(differences: Mapping[str, Difference]) -> dict[str, Ends]:
    return {
        metric: Ends(found.value, found.lower, found.upper) for metric, found in differences.items()
    }
