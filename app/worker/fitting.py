"""Candidates: a target's maps by its method, and campaigns' maps by calibrators of their own."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.settings import Settings
from app.worker.map_choice import replaced
from app.worker.methods import Methods
from calibrators import Atlas, BinsTable, Refit, refit_campaigns
from calibrators.history import History
from calibrators.per_campaign import PerCampaign
from calibrators.sufficiency import Reason


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Maps that may go out, with those that have not seen the newest hour (the guard's), the
    campaigns that got none, and the numbers of the method."""

    atlas: Atlas
    trial: Atlas | None = None
    skipped: Mapping[str, Reason] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fitting:
    """Fits as the settings say, the same for immediate and delayed targets."""

    settings: Settings
    methods: Methods

    def hours(self, target: str, own: Mapping[str, str]) -> int:
        """How many hours of a target's history its refit looks at."""
        names = {self.settings.calibrator_of(target), *own.values()}
        return max(self._hours(name) for name in names)

    def whole(self, target: str, history: History, own: Mapping[str, str]) -> Candidate:
        """Maps of all campaigns; `own` are the calibrators of campaigns that have theirs."""
        calibrator = self.settings.calibrator_of(target)
        fitted = self.methods.refit(calibrator, target, history, self.settings.guard)
        candidate = Candidate(fitted.atlas, fitted.trial, fitted.skipped, fitted.notes)
        others = {name: theirs for name, theirs in own.items() if theirs != calibrator}
        return self._laid_on(candidate, target, history, others)

    def named(
        self,
        target: str,
        history: History,
        own: Mapping[str, str],
        campaigns: Sequence[str],
        in_force: Atlas,
    ) -> Candidate:
        """Maps of these campaigns only; every other map, and the target's, is that in force."""
        calibrator = self.settings.calibrator_of(target)
        chosen = {name: own.get(name, calibrator) for name in campaigns}
        base = Candidate(in_force, in_force if self.settings.guard else None)
        return self._laid_on(base, target, history, chosen)

    def _laid_on(
        self, base: Candidate, target: str, history: History, calibrators: Mapping[str, str]
    ) -> Candidate:
        """The candidate with these campaigns as their calibrators fit them."""
        skipped = {name: why for name, why in base.skipped.items() if name not in calibrators}
        candidate = replace(base, skipped=skipped)
        tables = _Windows(history, set(calibrators), self.settings.window_hours)
        for calibrator, campaigns in _by_calibrator(calibrators).items():
            method = self.methods.of(calibrator)
            if isinstance(method, PerCampaign):
                candidate = _with_own(candidate, tables, campaigns, method)
            else:
                candidate = self._with_taken(candidate, target, history, calibrator, campaigns)
        return candidate

    def _with_taken(
        self,
        base: Candidate,
        target: str,
        history: History,
        calibrator: str,
        campaigns: Sequence[str],
    ) -> Candidate:
        """With maps out of a refit of all campaigns, whom the method learns from together."""
        fitted = self.methods.refit(calibrator, target, history, self.settings.guard)
        trial = base.trial
        if trial is not None and fitted.trial is not None:
            trial = replaced(trial, fitted.trial, campaigns)
        missing = set(campaigns).difference(fitted.atlas.campaigns)
        without: dict[str, Reason] = dict.fromkeys(missing, "few_samples")
        return Candidate(
            replaced(base.atlas, fitted.atlas, campaigns),
            trial,
            {**base.skipped, **without},
            base.notes or fitted.notes,
        )

    def _hours(self, calibrator: str) -> int:
        method = self.methods.of(calibrator)
        # Their trial is the refit of an hour before.
        return method.hours + (self.settings.guard and isinstance(method, PerCampaign))


class _Windows:
    """Windows of a few campaigns, each summed when it is first asked for."""

    def __init__(self, history: History, campaigns: set[str], hours: int) -> None:
        self._history, self._campaigns, self._hours = history, campaigns, hours
        self._summed: dict[int, BinsTable] = {}

    def before(self, hours: int) -> BinsTable:
        """That which ends so many hours before the newest hour does."""
        behind = self._history.newest + 1 - hours
        if hours not in self._summed:
            tables = self._history.windows(behind - self._hours, behind)
            chosen = (table.select(self._campaigns) for table in tables)
            self._summed[hours] = BinsTable.merge(chosen)
        return self._summed[hours]


def _with_own(
    base: Candidate, windows: _Windows, campaigns: Sequence[str], method: PerCampaign
) -> Candidate:
    def refit(atlas: Atlas, hours: int) -> Refit:
        window = [windows.before(hours)]
        return refit_campaigns(atlas, window, campaigns, method.calibrator, method.sufficiency)

    fitted = refit(base.atlas, 0)
    trial = None if base.trial is None else refit(base.trial, 1).atlas
    return replace(
        base, atlas=fitted.atlas, trial=trial, skipped={**base.skipped, **fitted.skipped}
    )


def _by_calibrator(calibrators: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    found = defaultdict(list)
    for campaign, calibrator in calibrators.items():
        found[calibrator].append(campaign)
    return found


def counted(names: Iterable[str]) -> dict[str, int]:
    """How often each name comes."""
    listed = list(names)
    return {name: listed.count(name) for name in sorted(set(listed))}
