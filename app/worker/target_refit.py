"""The refit of one target: its candidate, what the guard makes of it, and what to report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.worker.fitting import Candidate, Fitting, counted
from app.worker.map_choice import only, replaced
from calibrators import Atlas, BinsTable
from calibrators.guard import Guarded, guard
from calibrators.history import History

PASSED = "passed"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What to refit, and beside what.

    Attributes
    ----------
    in_force : the maps that serve now, which stay where `campaigns` names others.
    compared : the maps that were in force when the newest hour began, so that neither they nor
        the trial have seen it, and those in force now of campaigns that had none then; None where
        nothing was published before.
    own : calibrators of campaigns that have theirs.
    before : the report of the refit before.
    """

    target: str
    campaigns: Sequence[str] | None = None
    in_force: Atlas | None = None
    compared: Atlas | None = None
    own: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What goes out, and the report's part about it."""

    order: Order
    calibrator: str
    candidate: Candidate
    atlas: Atlas
    guarded: Guarded | None

    @property
    def held(self) -> Mapping[str, int]:
        """How many campaigns did not get their candidate as it was, by decision."""
        counts = {} if self.guarded is None else self.guarded.counts
        return {decision: count for decision, count in counts.items() if decision != PASSED}

    def report(self) -> dict[str, Any]:
        """How many campaigns got maps of their own, how many did not and why, and what held maps
        back; "guard" is None where there is none."""
        return {
            "fitted": len(self.atlas),
            "skipped": counted(self.candidate.skipped.values()),
            "calibrator": self.calibrator,
            "overridden": counted(self.order.own.values()),
            "overrides": dict(self.order.own),
            "guard": None if self.guarded is None else _told(self.guarded),
            "method": dict(self.candidate.notes),
        }

    def decided(self, top: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The top campaigns with the calibrator of each, and what became of its candidate; those
        that this refit did not name keep what the one before decided."""
        return [
            {
                **entry,
                "calibrator": self.order.own.get(entry["campaign"], self.calibrator),
                "decision": self._decision(entry["campaign"]),
            }
            for entry in top
        ]

    def _decision(self, campaign: str) -> str:
        named = self.order.campaigns
        if named is not None and campaign not in named:
            listed = self.order.before.get("top", ())
            earlier = {entry["campaign"]: entry.get("decision", PASSED) for entry in listed}
            return str(earlier.get(campaign, PASSED))
        return PASSED if self.guarded is None else self.guarded.decisions.get(campaign, PASSED)


def refit_target(fitting: Fitting, order: Order, history: History) -> Outcome:
    """Fit the candidate and let the guard choose on the newest hour of the history."""
    calibrator = fitting.settings.calibrator_of(order.target)
    if order.campaigns is None:
        candidate = fitting.whole(order.target, history, order.own)
        guarded = _guarded(candidate, order.compared, history)
        atlas = candidate.atlas if guarded is None else guarded.atlas
        return Outcome(order, calibrator, candidate, atlas, guarded)
    in_force = order.in_force or Atlas.empty()
    candidate = fitting.named(order.target, history, order.own, order.campaigns, in_force)
    guarded = _guarded_of(candidate, order.compared, history, set(order.campaigns))
    chosen = candidate.atlas if guarded is None else guarded.atlas
    atlas = replaced(in_force, chosen, order.campaigns)
    return Outcome(order, calibrator, candidate, atlas, guarded)


def _guarded(candidate: Candidate, compared: Atlas | None, history: History) -> Guarded | None:
    if candidate.trial is None:
        return None
    newest = history.windows(history.newest, history.newest + 1)
    return guard(candidate.atlas, candidate.trial, compared, newest)


def _guarded_of(
    candidate: Candidate, compared: Atlas | None, history: History, campaigns: set[str]
) -> Guarded | None:
    """The same for some campaigns: nothing of the others is up for decision."""
    if candidate.trial is None:
        return None
    newest: list[BinsTable] = [
        table.select(campaigns) for table in history.windows(history.newest, history.newest + 1)
    ]
    atlas, trial = only(candidate.atlas, campaigns), only(candidate.trial, campaigns)
    return guard(atlas, trial, None if compared is None else only(compared, campaigns), newest)


def _told(guarded: Guarded) -> dict[str, Any]:
    return {**guarded.counts, "target": guarded.target_decision}
