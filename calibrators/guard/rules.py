"""How far maps may move from one refit to the next, and which of two maps predicts the outcomes of
the newest hour worse, beyond noise: campaign by campaign, and for the target so that no single
campaign decides.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from calibrators.bins.bins import Bins, cell_means
from calibrators.bins.codecs import sorted_rows
from calibrators.bins.table import BinsTable, TablesByField
from calibrators.fields.effects import FieldEffects
from calibrators.fields.sums import row_ends
from calibrators.maps.atlas import Atlas
from calibrators.maps.calibration_map import CalibrationMap
from calibrators.samples import Floats, Integers, Scratch, check_rules, sum_at


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Numbers of the guard; nobody has to set them. See docs/guard.md for how they were chosen.

    false_alarms : largest probability of one comparison that a map is called worse although its
        probabilities are true up to the tolerance, in (0, 1).
    tolerance : by how much the level of a single hour may be off in log-odds without telling
        anything about the hours to come, in [0, 1].
    creep : from where on the target's level counts as off for all campaigns but one, in log-odds,
        in [0, 1).
    step : by what factor in odds what serves a campaign may move in one refit, above 1.
    reach : by what factor in odds a campaign's map may lie from the target's, at least step.
    knots : how many a mended map should have at most, at least 2.

    Raises ValueError when a parameter breaks its rule; it is named.
    """

    false_alarms: float = 0.001
    tolerance: float = 0.1
    creep: float = 0.3
    step: float = 3.0
    reach: float = 27.0
    knots: int = 64

    def __post_init__(self) -> None:
        check_rules(
            self,
            false_alarms=(0 < self.false_alarms < 1, "between 0 and 1"),
            tolerance=(0 <= self.tolerance <= 1, "in [0, 1]"),
            creep=(0 <= self.creep < 1, "in [0, 1)"),
            step=(1 < self.step < np.inf, "above 1, finite"),
            reach=(self.step <= self.reach < np.inf, "at least step, finite"),
            knots=(self.knots >= 2, "at least 2"),
        )

    @property
    def evidence(self) -> float:
        """The log likelihood ratio, in nats, from which on a map is worse beyond noise."""
        return -log(self.false_alarms)


_LEAST = 1e-9
"""Probabilities stay so far from 0 and 1, so that no single outcome is infinitely surprising."""

_STEPS = 5
"""Newton steps; a shift of at most 1 is found to all digits in fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Outcomes of an hour by cell of score: mean score, mean outcome, weight and campaign's row of
    each, (m,); `campaigns` says how many rows there are."""

    scores: Floats
    outcomes: Floats
    weights: Floats
    rows: Integers
    campaigns: int

    @classmethod
    def of_table(cls, table: BinsTable) -> Self:
        """Of the bins of an hour."""
        return cls(*table.samples(), len(table))

    def log_likelihood(self, log_odds: Floats) -> Floats:
        """Of each campaign's outcomes, (c,), by forecasts of every cell, (m,)."""
        nats = self.outcomes * log_odds - np.logaddexp(0.0, log_odds)
        return sum_at(self.rows, self.weights * nats, self.campaigns)

    def best_log_likelihood(self, log_odds: Floats, tolerance: float) -> Floats:
        """The largest `log_likelihood` of a campaign's forecasts shifted by up to the tolerance,
        all by the same."""
        shifts = self.best_shifts(log_odds, tolerance)
        return self.log_likelihood(log_odds + shifts[self.rows])

    def best_shifts(self, log_odds: Floats, most: float) -> Floats:
        """The shifts, (c,), up to `most` that make the likelihood the largest. It is concave in
        them, so Newton's method, held inside, finds them."""
        shifts = np.zeros(self.campaigns)
        for _ in range(_STEPS if most > 0.0 else 0):
            forecasts = expit(log_odds + shifts[self.rows])
            missed = self.weights * (self.outcomes - forecasts)
            widths = self.weights * forecasts * (1.0 - forecasts)
            short, curvature = (sum_at(self.rows, one, self.campaigns) for one in (missed, widths))
            steps = short / np.maximum(curvature, np.finfo(np.float64).tiny)
            shifts = np.clip(shifts + steps, -most, most)
        return shifts


def log_odds_of(probabilities: Floats) -> Floats:
    """Finite log-odds of forecasts."""
    return np.asarray(logit(np.clip(probabilities, _LEAST, 1.0 - _LEAST)))


class NewestHour:
    """Its bins in blocks, no campaign in two of them, and the evidence of each block; what several
    comparisons ask for is worked out once."""

    def __init__(self, tables: Iterable[BinsTable], fields: TablesByField | None = None) -> None:
        """Of the blocks' tables, and the tables by field where there are any."""
        scratch = Scratch()
        self.tables = scratch.kept(tables, len)
        self.evidence = scratch.kept(map(Evidence.of_table, self.tables))
        self.fields = fields
        self._known: dict[CalibrationMap, list[Floats]] = {}

    def leaving_out(self, campaigns: Collection[str]) -> "NewestHour":
        """The hour of all others; its tables by field as they are."""
        if not campaigns:
            return self
        others = (set(table.campaigns).difference(campaigns) for table in self.tables)
        return NewestHour(map(BinsTable.select, self.tables, others), self.fields)

    def shifts_by_fields(self, atlas: Atlas) -> Mapping[str, float]:
        """By how much the effects of an atlas move the log-odds of campaigns, on their mean: bins
        know no fields, and the maps are fitted to be right with these."""
        if self.fields is None or atlas.effects is None:
            return {}
        means = atlas.effects.campaign_means(self.fields.campaigns)
        return {name: log(mean) for name, mean in means.items()}

    @cached_property
    def campaigns(self) -> tuple[str, ...]:
        """Those of all blocks, in their order."""
        return tuple(name for table in self.tables for name in table.campaigns)

    @cached_property
    def total(self) -> Bins:
        """The bins of all campaigns together."""
        return Bins.merge(table.total() for table in self.tables)

    def log_likelihoods(self, forecaster: CalibrationMap) -> list[Floats]:
        """Of the outcomes of each block's campaigns, (c,), by one map for all of them."""
        if forecaster not in self._known:
            self._known[forecaster] = [
                each.log_likelihood(log_odds_of(forecaster(each.scores))) for each in self.evidence
            ]
        return self._known[forecaster]

    def gains(self, better: CalibrationMap, worse: CalibrationMap) -> Floats:
        """How much the outcomes of each campaign, (c,), speak for one map against another, in
        nats."""
        ours, theirs = map(self.log_likelihoods, (better, worse))
        return np.concatenate([np.empty(0), *map(np.subtract, ours, theirs)])

    def without(self, campaigns: Iterable[str]) -> Evidence:
        """Of all campaigns but these, as if they were one."""
        cells, sums = self.total.cells, self.total.sums.copy()
        for table in self.tables:
            for campaign in campaigns:
                bins = table.bins(campaign)
                sums[:, np.searchsorted(cells, bins.cells)] -= bins.sums
        scores, outcomes, weights = cell_means(cells, sums)
        return Evidence(scores, outcomes, weights, np.zeros(len(scores), np.int64), 1)


Decision = Literal["passed", "kept", "parent"]
Flags = NDArray[np.bool_]


def decisions_of(
    kept: Flags, parent_beats_trial: Flags, parent_beats_in_force: Flags
) -> NDArray[np.str_]:
    """From who beats whom, (c,) each; `kept` where the map in force beats the trial."""
    parent = parent_beats_trial & parent_beats_in_force
    return np.select([parent, kept | parent_beats_trial], ["parent", "kept"], "passed")


def campaign_decisions(
    hour: NewestHour, trial: Atlas, in_force: Atlas, parent: CalibrationMap, rules: GuardRules
) -> dict[str, Decision]:
    """Of the campaigns of the hour whose candidate does not pass."""
    refused: dict[str, Decision] = {}
    by_parent = hour.log_likelihoods(parent)
    shifts = [hour.shifts_by_fields(atlas) for atlas in (trial, in_force)]
    for table, evidence, nats in zip(hour.tables, hour.evidence, by_parent, strict=True):
        forecasts = [
            forecast(evidence, table, atlas) + _by_cell(evidence, table, moved)
            for atlas, moved in zip((trial, in_force), shifts, strict=True)
        ]
        decisions = _decisions(evidence, forecasts, nats, rules)
        for row in np.flatnonzero(decisions != "passed").tolist():
            refused[table.campaigns[row]] = decisions[row].item()
    return refused


def _decisions(
    evidence: Evidence, forecasts: Sequence[Floats], by_parent: Floats, rules: GuardRules
) -> NDArray[np.str_]:
    trial, served = forecasts
    trial_best = evidence.best_log_likelihood(trial, rules.tolerance)
    served_best = evidence.best_log_likelihood(served, rules.tolerance)
    return decisions_of(
        evidence.log_likelihood(served) - trial_best >= rules.evidence,
        by_parent - trial_best >= rules.evidence,
        by_parent - served_best >= rules.evidence,
    )


def forecast(evidence: Evidence, table: BinsTable, atlas: Atlas) -> Floats:
    """Log-odds of what an atlas gives each cell, (m,)."""
    rows = atlas.rows(table.campaigns)[evidence.rows]
    return log_odds_of(atlas.look_up(rows, evidence.scores))


def _by_cell(evidence: Evidence, table: BinsTable, shifts: Mapping[str, float]) -> Floats | float:
    if not shifts:
        return 0.0
    found = np.array([shifts.get(name, 0.0) for name in table.campaigns], np.float64)
    return np.asarray(found[evidence.rows])


_NO_EFFECTS = FieldEffects({})


def effects_are_worse(
    hour: NewestHour, trial: FieldEffects | None, in_force: FieldEffects | None, rules: GuardRules
) -> bool:
    """Whether the effects of the trial predict the hour's positives by value worse than those in
    force, beyond noise, in one of the fields: each value at its best level within the tolerance.

    Campaigns keep the positives that they have without effects, so that no level decides.
    """
    if hour.fields is None:
        return False
    tried, served = trial or _NO_EFFECTS, in_force or _NO_EFFECTS
    fields = dict.fromkeys((*tried.fields, *served.fields))
    tables = hour.fields.campaigns
    return any(
        _lost_by_value(tables[name], name, tried, served, rules.tolerance) >= rules.evidence
        for name in fields
        if name in tables
    )


def _lost_by_value(
    table: BinsTable, field: str, tried: FieldEffects, served: FieldEffects, tolerance: float
) -> float:
    """Nats that the effects tried lose to those that serve."""
    values = sorted_rows([row_ends(row)[1] for row in table.campaigns])[1]
    rows = [effects.campaign_rows(field, table) for effects in (tried, served)]
    ours, theirs = (np.bincount(values, each.forecast()) + _LEAST for each in rows)
    positives = np.bincount(values, rows[0].observed)
    ours = ours * np.clip(positives / ours, np.exp(-tolerance), np.exp(tolerance))
    return float(positives @ np.log(theirs / ours) - (theirs - ours).sum())


_WIDEST = 1.0
"""A level is looked for up to so far, in log-odds; beyond, it is off in any case."""


@dataclass(frozen=True, slots=True)
class TargetTest:
    """The hour and the rules.

    Nothing is said of two maps here that a single campaign decides: its tracker may be broken.
    """

    hour: NewestHour
    rules: GuardRules

    def beats(self, better: CalibrationMap, worse: CalibrationMap) -> bool:
        """Whether the second map is worse than the first beyond noise, at its best level within
        the tolerance, for all campaigns but the one that speaks most for the first."""
        if better == worse:
            return False
        evidence = self.hour.without({self._gains(better, worse).loudest[0]})
        won = evidence.log_likelihood(log_odds_of(better(evidence.scores)))
        best = evidence.best_log_likelihood(
            log_odds_of(worse(evidence.scores)), self.rules.tolerance
        )
        return float((won - best).sum()) >= self.rules.evidence

    def suits_few(self, candidate: CalibrationMap, in_force: CalibrationMap) -> bool:
        """Whether the candidate is worse beyond noise, and its level off by more than the creep,
        for all campaigns but the two that speak most for and most against it: it may have learned
        too much from one of them.

        Here is no tolerance, as steps smaller than that add up; the creep is where they end."""
        gains = self._gains(candidate, in_force)
        if gains.of_all_others > -self.rules.evidence:
            return False
        rest = self.hour.without({gains.loudest[0], gains.quietest[0]})
        shift = rest.best_shifts(log_odds_of(candidate(rest.scores)), _WIDEST)
        return bool(np.abs(shift).max() > self.rules.creep)

    def _gains(self, better: CalibrationMap, worse: CalibrationMap) -> "_Gains":
        return _Gains(self.hour.campaigns, self.hour.gains(better, worse))


@dataclass(frozen=True, slots=True, eq=False)
class _Gains:
    """How much the outcomes of each campaign, (c,), speak for one map against another, in nats."""

    campaigns: Sequence[str]
    nats: Floats

    @property
    def loudest(self) -> tuple[str, float]:
        """The campaign that speaks most for it; of none, nothing."""
        return self._at(int(self.nats.argmax())) if self.campaigns else ("", 0.0)

    @property
    def quietest(self) -> tuple[str, float]:
        """The campaign that speaks most against it; of none, nothing."""
        return self._at(int(self.nats.argmin())) if self.campaigns else ("", 0.0)

    @property
    def of_all_others(self) -> float:
        """The sum without these two."""
        return float(self.nats.sum()) - max(self.loudest[1], 0.0) - min(self.quietest[1], 0.0)

    def _at(self, place: int) -> tuple[str, float]:
        return self.campaigns[place], float(self.nats[place])
