"""Which of the maps at hand is worse than another beyond noise."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrators.atlas import Atlas
from calibrators.bins_table import BinsTable
from calibrators.calibration_map import CalibrationMap
from calibrators.guard.evidence import Evidence, log_odds_of
from calibrators.guard.newest_hour import NewestHour
from calibrators.guard.rules import GuardRules
from calibrators.samples import Floats

Verdict = Literal["passed", "kept", "parent"]
Flags = NDArray[np.bool_]


def verdicts_of(
    kept: Flags, parent_beats_trial: Flags, parent_beats_in_force: Flags
) -> NDArray[np.str_]:
    """From who beats whom, (c,) each; `kept` where the map in force beats the trial."""
    parent = parent_beats_trial & parent_beats_in_force
    return np.select([parent, kept | parent_beats_trial], ["parent", "kept"], "passed")


def campaign_verdicts(
    hour: NewestHour,
    trial: Atlas,
    in_force: Atlas,
    parent: CalibrationMap,
    rules: GuardRules,
) -> dict[str, Verdict]:
    """Of the campaigns of the hour whose candidate does not pass."""
    refused: dict[str, Verdict] = {}
    by_parent = hour.log_likelihoods(parent)
    for table, evidence, nats in zip(hour.tables, hour.evidence, by_parent, strict=True):
        verdicts = _verdicts(evidence, table, (trial, in_force), nats, rules)
        for row in np.flatnonzero(verdicts != "passed").tolist():
            refused[table.campaigns[row]] = verdicts[row].item()
    return refused


def _verdicts(
    evidence: Evidence,
    table: BinsTable,
    atlases: tuple[Atlas, Atlas],
    by_parent: Floats,
    rules: GuardRules,
) -> NDArray[np.str_]:
    trial, served = (log_odds_of(_forecast(evidence, table, atlas)) for atlas in atlases)
    trial_best = evidence.best_log_likelihood(trial, rules.tolerance)
    served_best = evidence.best_log_likelihood(served, rules.tolerance)
    return verdicts_of(
        evidence.log_likelihood(served) - trial_best >= rules.evidence,
        by_parent - trial_best >= rules.evidence,
        by_parent - served_best >= rules.evidence,
    )


def _forecast(evidence: Evidence, table: BinsTable, atlas: Atlas) -> Floats:
    return atlas.look_up(atlas.rows(table.campaigns)[evidence.rows], evidence.scores)
