"""The refit of one target: the candidate by its method, what the guard makes of it, the report.

Campaigns may have calibrators of their own, and a refit may be of some campaigns only. Its history
is read from the store, block by block.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.settings import SECONDS_PER_HOUR, Settings, groups_of
from app.storage.bins import BinsStore, HourBlocks
from app.worker.monitoring import RawWindow
from calibrators import Atlas, BinsTable, CalibrationMap, Sufficiency, refit_campaigns
from calibrators.bins.model_versions import SEPARATOR, campaign_of, names_by_version
from calibrators.bins.table import History, HourTables, sums_of_block
from calibrators.guard import Guarded, RefitChange, guard, mean_move
from calibrators.maps.groups import GroupOf
from calibrators.maps.look_up import drop_spare_tables
from calibrators.methods.refit import Fitted, Method, PerCampaign, Reason, ScaleOfScores
from calibrators.model_versions import refit_by_version
from calibrators.registry import METHODS, make_method
from calibrators.samples import give_heap_back, let_go

Divided = Callable[[str, str, History, object, bool], Fitted | None]
"""A refit, of a target by a calibrator, that others help with; None where they do not."""


class Methods:
    """Makes each method once; runs it from where its last refit of the target left off, and
    `together` with others where that is set."""

    def __init__(self, settings: Settings) -> None:
        self.together: Divided | None = None
        self._settings = settings
        self._made: dict[str, Method] = {}
        self._memories: dict[tuple[str, str], object] = {}
        self._scales: dict[tuple[str, str], ScaleOfScores | None] = {}

    def of(self, calibrator: str) -> Method:
        """The method of that name, with the numbers of the settings."""
        if calibrator not in self._made:
            settings = self._settings
            self._made[calibrator] = make_method(
                calibrator,
                hours=settings.window_hours,
                history_hours=settings.history_hours,
                bin_size=settings.bin_size,
                prior_strength=settings.prior_strength,
                sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
                groups=groups_of(settings),
            )
        return self._made[calibrator]

    def refit(self, calibrator: str, target: str, history: History, trial: bool) -> Fitted:
        """All maps of a target by one method; what it remembers is of this target alone."""
        place = (target, calibrator)
        memory, fitted = self._memories.get(place), None
        if self.together is not None:
            fitted = self.together(target, calibrator, history, memory, trial)
        if fitted is None:
            fitted = refit_by_version(self.of(calibrator), history, memory=memory, trial=trial)
        self._memories[place], self._scales[place] = fitted.memory, fitted.scale
        # What follows asks for long arrays, which find no room between what was freed.
        give_memory_back()
        return fitted

    def scale(self, calibrator: str, target: str) -> ScaleOfScores | None:
        """That which the last refit of a target by a method found, if the method looks at it."""
        return self._scales.get((target, calibrator))

    def forget(self) -> None:
        """Begin anew: another worker may have refitted meanwhile."""
        self._memories.clear()
        self._scales.clear()


def give_memory_back() -> None:
    """What a fit or a training took for a moment."""
    drop_spare_tables()
    let_go()
    give_heap_back()


def only(atlas: Atlas, campaigns: Collection[str]) -> Atlas:
    """The maps of these campaigns, as far as they have any, the target's, effects and spreads."""
    return atlas.with_own({}, set(atlas.campaigns).difference(campaigns))


def replaced(atlas: Atlas, source: Atlas, campaigns: Collection[str]) -> Atlas:
    """The atlas with these campaigns as they are in the source; one without a map there has none.

    Every other map, the target's, and the effects of fields stay.
    """
    named = {*names_by_version((*atlas.campaigns, *source.campaigns), campaigns)}
    own = _own(source, named)
    # A version of the model that is not known there is served by what there is of the campaign.
    versions = {name: own[known] for name in named if (known := campaign_of(name)) in own}
    return atlas.with_own(versions | own, named)


def kept(
    atlas: Atlas, in_force: Atlas | None, campaigns: Collection[str], named: GroupOf | None = None
) -> Atlas:
    """These campaigns keep what serves them, as maps of their own; `named` tells their groups."""
    if not campaigns:
        return atlas
    # An atlas without campaigns is false, too, and may have a target's map and those of groups.
    source, groups = Atlas.empty() if in_force is None else in_force, atlas.groups
    names = names_by_version(atlas.campaigns, campaigns)
    # Of atlases that are read from bytes no field says it.
    of = named or (groups.group_of if groups else lambda _: None)
    return atlas.with_own({name: source.map_of(name, of(campaign_of(name))) for name in names})


def filled(atlas: Atlas | None, source: Atlas | None) -> Atlas | None:
    """The atlas with the source's maps, and its effects of fields, where it has none."""
    if atlas is None or source is None:
        return source if atlas is None else atlas
    missing = set(source.campaigns).difference(atlas.campaigns)
    target_map = atlas.target_map or source.target_map
    effects = atlas.effects or source.effects
    if not missing and target_map == atlas.target_map:
        return atlas.with_effects(effects)
    maps = _own(atlas, atlas.campaigns) | _own(source, missing)
    found = Atlas.build(maps, target_map, atlas.groups or source.groups)
    return found.with_effects(effects).with_spreads_of(atlas if atlas.spreads else source)


def _own(atlas: Atlas, campaigns: Collection[str]) -> dict[str, CalibrationMap]:
    known = set(atlas.campaigns)
    return {name: atlas.map_of(name) for name in campaigns if name in known}


def _on_scale(fitted: Fitted, atlas: Atlas | None, as_of: float | None) -> Atlas | None:
    """Maps fitted as of a moment, in epoch seconds, on the scale of the newest scores."""
    if fitted.scale is None or as_of is None:
        return atlas
    return fitted.scale.on_scale(atlas, as_of / SECONDS_PER_HOUR)


@dataclass(frozen=True, slots=True)
class Fitting:
    """Fits as the settings say, the same for immediate and delayed targets; `promoted` are methods
    of targets in the place of the settings'."""

    settings: Settings
    methods: Methods
    promoted: Mapping[str, str] = field(default_factory=dict)

    def calibrator_of(self, target: str) -> str:
        """The method of a target; one that there is not any more counts for nothing."""
        promoted = self.promoted.get(target)
        return promoted if promoted in METHODS else self.settings.calibrator_of(target)

    def pushed(self, hour: int, bins: BinsStore) -> Iterator[str]:
        """Immediate targets to refit before the hour is over, because another model scores."""
        for target in self.settings.targets:
            scale = self.methods.scale(self.calibrator_of(target), target)
            if scale is not None and scale.changed(hour, bins.hour(target, hour)):
                yield target

    def hours(self, target: str, own: Mapping[str, str]) -> int:
        """How many hours of a target's history its refit looks at."""
        methods = map(self.methods.of, {self.calibrator_of(target), *own.values()})
        # The trial of single campaigns is the refit of an hour before.
        guard = self.settings.guard
        return max(each.hours + (guard and isinstance(each, PerCampaign)) for each in methods)

    def whole(self, target: str, history: History, own: Mapping[str, str]) -> Fitted:
        """Maps of all campaigns; `own` are the calibrators of campaigns that have theirs."""
        calibrator = self.calibrator_of(target)
        fitted = self.methods.refit(calibrator, target, history, self.settings.guard)
        others = {name: theirs for name, theirs in own.items() if theirs != calibrator}
        return self._laid_on(fitted, target, history, others)

    def named(
        self,
        target: str,
        history: History,
        own: Mapping[str, str],
        campaigns: Sequence[str],
        in_force: Atlas,
    ) -> Fitted:
        """Maps of these campaigns only; every other map, and the target's, is that in force."""
        calibrator = self.calibrator_of(target)
        chosen = {name: own.get(name, calibrator) for name in campaigns}
        base = Fitted(in_force, in_force if self.settings.guard else None)
        return self._laid_on(base, target, history, chosen)

    def _laid_on(
        self, base: Fitted, target: str, history: History, calibrators: Mapping[str, str]
    ) -> Fitted:
        """The candidate with these campaigns as their calibrators fit them."""
        skipped = {name: why for name, why in base.skipped.items() if name not in calibrators}
        candidate = replace(base, skipped=skipped, set_aside=base.set_aside - {*calibrators})
        tables = _Windows(history, set(calibrators), self.settings.window_hours)
        for calibrator, campaigns in _by_calibrator(calibrators).items():
            method = self.methods.of(calibrator)
            if isinstance(method, PerCampaign):
                candidate = _with_own(candidate, tables, campaigns, method)
            else:
                candidate = self._with_taken(candidate, target, history, calibrator, campaigns)
        return candidate

    def _with_taken(
        self, base: Fitted, target: str, history: History, calibrator: str, campaigns: Sequence[str]
    ) -> Fitted:
        """With maps out of a refit of all campaigns, whom the method learns from together."""
        fitted = self.methods.refit(calibrator, target, history, self.settings.guard)
        trial = base.trial
        if trial is not None and fitted.trial is not None:
            trial = replaced(trial, fitted.trial, campaigns)
        missing = set(campaigns).difference(fitted.atlas.campaigns)
        without: dict[str, Reason] = dict.fromkeys(missing, "few_samples")
        return Fitted(
            replaced(base.atlas, fitted.atlas, campaigns),
            trial,
            {**base.skipped, **without},
            notes=base.notes or fitted.notes,
            set_aside=base.set_aside | (fitted.set_aside & {*campaigns}),
        )


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
            chosen = (table.without_versions().select(self._campaigns) for table in tables)
            self._summed[hours] = BinsTable.merge(chosen)
        return self._summed[hours]


def _with_own(
    base: Fitted, windows: _Windows, campaigns: Sequence[str], method: PerCampaign
) -> Fitted:
    def refit(atlas: Atlas, hours: int) -> Fitted:
        window = windows.before(hours)
        return refit_campaigns(atlas, window, campaigns, method.calibrator, method.sufficiency)

    fitted = refit(base.atlas, 0)
    trial = None if base.trial is None else _of_all_versions(refit(base.trial, 1).atlas, campaigns)
    atlas = _of_all_versions(fitted.atlas, campaigns)
    return replace(base, atlas=atlas, trial=trial, skipped={**base.skipped, **fitted.skipped})


def _of_all_versions(atlas: Atlas, campaigns: Sequence[str]) -> Atlas:
    """The maps of these campaigns for all versions of the model."""
    names = set(names_by_version(atlas.campaigns, campaigns)).difference(campaigns)
    return atlas.with_own({name: atlas.map_of(campaign_of(name)) for name in names})


def _by_calibrator(calibrators: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    found = defaultdict(list)
    for campaign, calibrator in calibrators.items():
        found[calibrator].append(campaign)
    return found


def counted(names: Iterable[str]) -> dict[str, int]:
    """How often each name comes."""
    return dict(sorted(Counter(names).items()))


PASSED = "passed"
FROZEN = "frozen"
_DAY_HOURS = 24


@dataclass(frozen=True, slots=True, eq=False)
class RefitTask:
    """What to refit, and beside what.

    Attributes
    ----------
    in_force : the maps that serve now, which stay where `campaigns` names others.
    compared : the maps that were in force when the newest hour began, so that neither they nor
        the trial have seen it, and those in force now of campaigns that had none then; None where
        nothing was published before.
    own : calibrators of campaigns that have theirs.
    fitted_as_of, compared_as_of : when those were fitted as of, in epoch seconds, if that is known.
    before : the report of the refit before.
    frozen : campaigns that keep what serves them.
    """

    target: str
    campaigns: Sequence[str] | None = None
    in_force: Atlas | None = None
    compared: Atlas | None = None
    own: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    fitted_as_of: float | None = None
    compared_as_of: float | None = None
    frozen: Collection[str] = ()

    @property
    def moves(self) -> list[float]:
        """By how much the maps have moved at each refit of late."""
        return list(self.before.get("moves", ()))


@dataclass(frozen=True, slots=True, eq=False)
class RefitOutcome:
    """What goes out, and the report's part about it; `change` is None where nothing is to be
    approved: without the guard, and of campaigns that an operator named."""

    order: RefitTask
    calibrator: str
    candidate: Fitted
    atlas: Atlas
    guarded: Guarded | None
    change: RefitChange | None = None

    @property
    def held_because(self) -> str | None:
        """Why the maps wait for approval, if they do."""
        return None if self.change is None else self.change.held_because()

    @property
    def held(self) -> Mapping[str, int]:
        """How many campaigns did not get their candidate as it was, by decision."""
        counts = {} if self.guarded is None else self.guarded.counts
        return {decision: count for decision, count in counts.items() if decision != PASSED}

    def report(self) -> dict[str, Any]:
        """How many campaigns got maps of their own, how many did not and why, and what held maps
        back; "guard" is None where there is none."""
        return {
            "fitted": sum(SEPARATOR not in name for name in self.atlas.campaigns),
            "skipped": counted(self.candidate.skipped.values()),
            "calibrator": self.calibrator,
            "overridden": counted(self.order.own.values()),
            "overrides": dict(self.order.own),
            "guard": self.guarded
            and {**self.guarded.counts, "target": self.guarded.target_decision},
            "method": dict(self.candidate.notes),
            "moves": self.order.moves if self.change is None else self.change.accepted,
            **({"frozen_campaigns": len(self.order.frozen)} if self.order.frozen else {}),
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
        if campaign in self.order.frozen:
            return FROZEN
        if named is not None and campaign not in named:
            listed = self.order.before.get("top", ())
            earlier = {entry["campaign"]: entry.get("decision", PASSED) for entry in listed}
            return str(earlier.get(campaign, PASSED))
        return PASSED if self.guarded is None else self.guarded.decisions.get(campaign, PASSED)


def refit_target(fitting: Fitting, order: RefitTask, history: History) -> RefitOutcome:
    """Fit the candidate and let the guard choose on the newest hour of the history."""
    calibrator = fitting.calibrator_of(order.target)
    if order.campaigns is None:
        candidate = fitting.whole(order.target, history, order.own)
        compared = _on_scale(candidate, order.compared, order.compared_as_of)
        guarded = _guarded(candidate, compared, history)
        chosen = candidate.atlas if guarded is None else guarded.atlas
        atlas = kept(chosen, order.in_force, order.frozen).with_spreads_of(candidate.atlas)
        change = _change(order, candidate, atlas, history)
        # Nobody asks for the trial any more, which is as large as what goes out.
        told = replace(candidate, trial=None)
        return RefitOutcome(order, calibrator, told, atlas, guarded, change)
    in_force = Atlas.empty() if order.in_force is None else order.in_force
    candidate = fitting.named(order.target, history, order.own, order.campaigns, in_force)
    names = set(names_by_version(candidate.atlas.campaigns, ("", *order.campaigns)))
    guarded = _guarded(candidate, order.compared, history, names)
    chosen = candidate.atlas if guarded is None else guarded.atlas
    moving = set(order.campaigns).difference(order.frozen)
    atlas = replaced(in_force, chosen, moving).with_spreads_of(candidate.atlas)
    return RefitOutcome(order, calibrator, candidate, atlas, guarded)


def _guarded(
    candidate: Fitted, compared: Atlas | None, history: History, campaigns: set[str] | None = None
) -> Guarded | None:
    """By the newest hour; given campaigns, nothing of the others is up for decision."""
    if candidate.trial is None:
        return None
    atlas, trial = candidate.atlas, candidate.trial
    newest = history.windows(history.newest, history.newest + 1)
    if campaigns is not None:
        newest = iter([table.select(campaigns) for table in newest])
        atlas, trial = only(atlas, campaigns), only(trial, campaigns)
        compared = None if compared is None else only(compared, campaigns)
    fields = None if history.fields is None else history.fields(history.newest)
    return guard(atlas, trial, compared, newest, fields=fields, set_aside=candidate.set_aside)


def _change(
    order: RefitTask, candidate: Fitted, atlas: Atlas, history: History
) -> RefitChange | None:
    in_force = _on_scale(candidate, order.in_force, order.fitted_as_of)
    if candidate.trial is None or in_force is None:
        return None
    move = _move(in_force, atlas, history)
    traffic = {row["campaign"]: row["n"] for row in order.before.get("top", ())}
    fitted = kept(candidate.atlas, order.in_force, order.frozen)
    return RefitChange(in_force, fitted, move, order.moves, traffic)


def _move(before: Atlas, after: Atlas, history: History) -> float | None:
    """On the newest hour; on those of a day where that had no traffic, so that an hour without any
    does not let everything pass."""
    behind = history.newest + 1
    for hours in (1, _DAY_HOURS):
        move = mean_move(history.windows(behind - hours, behind), before, after)
        if move is not None:
            return move
    return None


@dataclass(frozen=True, slots=True)
class ReadBlocks:
    """Blocks of bins by hour, read anew each time. Where all of the report's window goes by, its
    numbers are taken on the way."""

    stored: HourBlocks
    window: RawWindow

    def __iter__(self) -> Iterator[HourTables]:
        found = self.window.begin() if self.window.is_awaited else None
        for block in self.stored:
            if found is not None:
                found.add(sums_of_block(block, (self.window.hours,))[0])
            yield block
            # Not to be held while the next one is read.
            del block
        if found is not None:
            self.window.found = found
        # What was read lies between what was made of it, and nothing as long fits in its place.
        give_memory_back()

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """Those of first <= hour < behind; no others are read."""
        return iter(self.stored.between(first, behind))

    def sums(self, spans: Sequence[range]) -> Iterator[tuple[BinsTable, ...]]:
        """The sums over spans of hours, all of a block at once."""
        first, behind = min(span.start for span in spans), max(span.stop for span in spans)
        sums = self.stored.between(first, behind).sums(spans)
        if not self.window.is_awaited or self.window.hours not in spans:
            yield from sums
            return
        found, place = self.window.begin(), spans.index(self.window.hours)
        for tables in sums:
            found.add(tables[place])
            yield tables
        self.window.found = found


@dataclass(frozen=True, slots=True, eq=False)
class StoredHistory(History):
    """See `History`: of hours that are not asked for nothing is read."""

    blocks: ReadBlocks

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """See `History`."""
        return self.blocks.between(first, behind)

    def sums(self, *spans: range) -> Iterator[tuple[BinsTable, ...]]:
        """See `History`."""
        return self.blocks.sums(spans)
