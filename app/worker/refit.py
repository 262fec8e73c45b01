"""One refit of the service: fold, evaluate the hours just closed, fit, publish one version.

Maps of targets that an operator has to approve first are held instead, and the rest is published.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, Final

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.blocks import Block
from app.storage.errors import LeaseLost, StorageUnavailable, UnknownVersion, VersionChanged
from app.storage.keys import begun_hours, closed_hours
from app.storage.lease import LeaseToken
from app.storage.overrides import FrozenTargets, Overrides, frozen_campaigns
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache, CachedVersion, Steering
from app.worker.delayed_targets import DelayedTargets
from app.worker.experiments import Canary, Challengers
from app.worker.fields import FieldsReport, owning_groups
from app.worker.fitting import (
    FROZEN,
    Fitting,
    Methods,
    ReadBlocks,
    RefitTask,
    StoredHistory,
    filled,
    kept,
    refit_target,
)
from app.worker.monitoring import (
    MoneyReport,
    PcocBounds,
    PrequentialEvaluation,
    RawWindow,
    TargetReport,
    carried_over,
    new_pushes,
)
from app.worker.products import products_report
from app.worker.progress import PUBLISHING, Advance, Step
from calibrators import Atlas
from calibrators.bins.table import History
from calibrators.registry import METHODS
from calibrators.samples import Floats

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What to refit: every target and campaign unless named.

    `between_hours` marks a scheduled refit at another moment than a whole hour: of immediate
    targets only, and hours that were evaluated once are not evaluated again.
    """

    as_of: float
    target: str | None = None
    campaigns: Sequence[str] | None = None
    between_hours: bool = False


@dataclass(frozen=True, slots=True)
class _Present:
    """What a refit begins with: what serves, and what served when the newest hour began."""

    in_force: CachedVersion
    compared: CachedVersion
    own: Mapping[str, Mapping[str, str]]
    frozen: Collection[str]
    freezes: str | None

    def order(self, request: Request, target: str) -> RefitTask:
        """What is asked of one target."""
        in_force = self.in_force.atlases.get(target)
        return RefitTask(
            target,
            request.campaigns,
            in_force,
            # What the hour itself brought first stands for what there was not when it began.
            filled(self._compared_with(target), in_force),
            self.own.get(target, {}),
            self.in_force.targets.get(target, {}),
            self.in_force.fitted_as_of(target),
            self.compared.fitted_as_of(target),
            frozen_campaigns(self.frozen, target),
        )

    def _compared_with(self, target: str) -> Atlas | None:
        """Of a target whose method was promoted since, the maps that were on trial then: those of
        the champion before are no measure for what follows them."""
        before, promoted = self.compared.steering, self.in_force.steering.methods.get(target)
        champion = self.compared.atlases.get(target)
        on_trial = before.experiments.get(target, {}).get("challenger", {}).get("method")
        if promoted is None or promoted != on_trial:
            return champion
        return before.challengers.get(target, champion)


STORE_EMPTIED: Final = "store-emptied"
UNREADABLE: Final = "versions-unreadable"
OF_THE_PAST: Final = "of-the-past"


@dataclass(slots=True)
class RefittedTargets:
    """The new maps of targets, as far as there are any, the reports, and why maps wait for
    approval; by target."""

    atlases: dict[str, Atlas] = field(default_factory=dict)
    reports: dict[str, Any] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)

    def add(
        self, target: str, atlas: Atlas | None, report: dict[str, Any], held: str | None
    ) -> None:
        """Take in what came of one target."""
        self.reports[target] = report
        if atlas is not None:
            self.atlases[target] = atlas
            self.held |= {target: held} if held else {}

    def split(self) -> tuple["RefittedTargets", "RefittedTargets"]:
        """What may go out, and what is held."""
        return self._of(self.reports.keys() - self.held.keys()), self._of(self.held.keys())

    def _of(self, targets: Collection[str]) -> "RefittedTargets":
        parts: Sequence[dict[str, Any]] = (self.atlases, self.reports, self.held)
        return RefittedTargets(*({k: v for k, v in p.items() if k in targets} for p in parts))


# Shares of a refit that are done before the first target is fitted, and after the last.
_BEFORE, _AFTER = 0.1, 0.95


@dataclass(slots=True)
class Refitter:
    """Runs refits against the store; time comes in with every call.

    `left_alone` counts refits of delayed targets that failed: their maps stayed in force, and the
    other targets' new ones were published. `held` counts what the guard held back, by decision.
    `pushes` counts the hours from which on another model scored, by target.
    `advance` is called with every step of a refit.
    """

    settings: Settings
    bins: BinsStore
    versions: Versions
    overrides: Overrides | None = None
    delayed: DelayedTargets | None = None
    frozen: FrozenTargets | None = None
    left_alone: int = 0
    held: Counter[str] = field(default_factory=Counter)
    pushes: Counter[str] = field(default_factory=Counter)
    advance: Advance = lambda _: None
    cache: AtlasCache = field(init=False)
    methods: Methods = field(init=False)
    canary: Canary = field(init=False)
    _fitting: Fitting = field(init=False)
    _any_in_force: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.cache = AtlasCache(self.versions)
        if self.settings.fields:
            self.bins.fold_with(self._probabilities)
        self.canary = Canary(self.settings, self.bins, self.versions, self.cache)
        self.methods = Methods(self.settings)
        self._fitting = Fitting(self.settings, self.methods)

    def run(
        self, request: Request, lease_token: LeaseToken, now: Callable[[], float]
    ) -> dict[str, Any]:
        """Publish the maps as of a moment; returns the report, with the version.

        What waits for approval instead is in "held": its version, and "reasons" by target; the
        version is None where that is everything. Frozen targets are evaluated and keep their maps.
        Evaluation comes before fitting, so every number of the report is out of sample. Raises
        LeaseLost when another worker has taken over: nothing is published then.
        """
        try:
            return self._run(request, lease_token, now)
        except VersionChanged as error:
            _log.warning("%s; refitting as of %s again", error, request.as_of)
        # Not while the error is handled: it holds all maps of the first attempt.
        return self._run(request, lease_token, now)

    def _run(
        self, request: Request, lease_token: LeaseToken, now: Callable[[], float]
    ) -> dict[str, Any]:
        started = perf_counter()
        self.advance(Step("folding events", 0.0))
        self.bins.fold()
        self.advance(Step("evaluating hours", _BEFORE / 2))
        self._evaluate(request)
        expected, in_force = self.versions.current(), self._in_force()
        present = self._present(request, in_force or CachedVersion())
        self.cache.make_room()
        self._fitting = replace(self._fitting, promoted=present.in_force.steering.methods)
        request, carried = self._carried_over(request, in_force, present.frozen)
        refitted = RefittedTargets()
        for target in _chosen(request, self.settings.targets):
            step = self._report_frozen if target in present.frozen else self._refit
            step(request, present.order(request, target), refitted)
        self._refit_delayed(request, now(), present, refitted)
        self._hold_all_where(request, in_force, refitted)
        ready, held = refitted.split()
        carried = carried.beside((in_force or CachedVersion()).only(held.held))
        carried = replace(carried, steering=self._on_trial(request, present))
        self.advance(Step(PUBLISHING, _AFTER))
        report = self._report(request, carried, ready, perf_counter() - started)
        version = None
        if ready.atlases or not held.held:
            conditions = (expected, present.freezes)
            version = self._publish(report, carried, ready, lease_token, now(), conditions)
            self._drop_held(request, ready)
        waits = self._hold(request, held, lease_token, now())
        return {**report, "version": version, "held": waits}

    def approve(self, version: str, lease_token: LeaseToken, now: float) -> dict[str, Any]:
        """Publish the maps that are held, beside what is in force of other targets; returns the
        report. Raises UnknownVersion unless it is this version that is held, CorruptVersion, and
        VersionChanged where a target of it is frozen."""
        held, expected = self.versions.held(), self.versions.current()
        if held is None or held["version"] != version:
            raise UnknownVersion(version)
        found = self.cache.load(version)
        in_force = self._in_force() or CachedVersion()
        frozen, freezes = self._frozen()
        atlases = {}
        for target, atlas in found.atlases.items():
            serving, names = in_force.atlases.get(target), frozen_campaigns(frozen, target)
            named = owning_groups(self.bins, self.settings, target, found.as_of)
            atlases[target] = kept(atlas, serving, names, named)
        chosen = RefittedTargets(atlases, dict(found.targets), held["reasons"])
        report = self._report(Request(found.as_of), in_force, chosen, 0.0) | {"approved": version}
        published = self._publish(report, in_force, chosen, lease_token, now, (expected, freezes))
        self.versions.reject()
        return {**report, "version": published, "held": None}

    def _report(
        self, request: Request, carried: CachedVersion, ready: RefittedTargets, seconds: float
    ) -> dict[str, Any]:
        atlases, steering = {**carried.atlases, **ready.atlases}, carried.steering
        reports = steering.beside({**carried.targets, **ready.reports})
        moments = self._moments_of(atlases, reports) + steering.moments
        damaged = self.bins.damage.emptied()
        known = (self.bins, self.settings, request.as_of, reports)
        return {
            "as_of": max(request.as_of, carried.as_of, *moments),
            "calibrator": self.settings.calibrator,
            "refit_seconds": seconds,
            **({"damaged": damaged} if damaged else {}),
            "targets": reports,
            **steering.report,
            **(products_report(*known) if self.settings.products else {}),
        }

    def _hold_all_where(
        self, request: Request, in_force: CachedVersion | None, refitted: RefittedTargets
    ) -> None:
        """Nothing follows on what is gone, nor on the long past; what is worse is told instead."""
        if in_force is None and (self.cache.any_newer or self._any_in_force):
            why = UNREADABLE if self.cache.any_newer else STORE_EMPTIED
            # Those without new maps, too: what is frozen would be left without any.
            refitted.held = dict.fromkeys(refitted.reports, why)
        window = self.settings.window_hours * SECONDS_PER_HOUR
        if in_force is not None and self.settings.guard and request.as_of < in_force.as_of - window:
            refitted.held = dict.fromkeys(refitted.atlases, OF_THE_PAST) | refitted.held
        self._any_in_force = self._any_in_force or in_force is not None

    def _drop_held(self, request: Request, ready: RefittedTargets) -> None:
        """What waited for approval is dropped where its targets have new maps now, or are read."""
        before, whole = self.versions.held(), request.campaigns is None
        reasons = before["reasons"].items() if before and whole else ()
        if reasons and all(why == UNREADABLE or name in ready.atlases for name, why in reasons):
            self.versions.reject()

    def _hold(
        self, request: Request, held: RefittedTargets, lease_token: LeaseToken, now: float
    ) -> dict[str, Any] | None:
        """Keep what waits for approval, in the place of what waited before."""
        if not held.held:
            return None
        packed = {target: atlas.to_memory() for target, atlas in held.atlases.items()}
        report = {"targets": {target: held.reports[target] for target in held.held}}
        why = {"reasons": held.held}
        version = self.versions.hold(lease_token, request.as_of, now, packed, report, why)
        _log.error("held for approval: %s as of %s: %s", version, request.as_of, held.held)
        return {"version": version, **why}

    def _publish(
        self,
        report: Mapping[str, Any],
        carried: CachedVersion,
        ready: RefittedTargets,
        lease_token: LeaseToken,
        now: float,
        conditions: tuple[str | None, str | None],
    ) -> str:
        atlases = {**carried.atlases, **ready.atlases}
        every = {**atlases, **carried.steering.atlases}
        packed = {name: atlas.to_memory() for name, atlas in every.items()}
        as_of, replaced = report["as_of"], list(ready.held or ready.atlases)
        version = self.versions.publish(
            lease_token, as_of, now, packed, dict(report), replaced, *conditions
        )
        cached = CachedVersion(as_of, atlases, report["targets"], carried.steering)
        self.cache.put(version, cached)
        self._any_in_force = True
        return version

    def _refit(self, request: Request, order: RefitTask, refitted: RefittedTargets) -> None:
        self._fits(request, order.target, 0.0)
        closed, target_report = closed_hours(request.as_of), TargetReport(self.settings, self.bins)
        known = carried_over(order.before, closed) if request.between_hours else None
        window = target_report.window(closed) if known is None else RawWindow.none()
        hours = self._fitting.hours(order.target, order.own)
        reached = partial(self._fits, request, order.target)
        history = self._history(request, order.target, hours, window, reached)
        outcome = refit_target(self._fitting, order, history)
        quality = known or self._quality(target_report, order, closed, window)
        # A refit of a few campaigns does not stand for the hour's refit of the target.
        whole = request.campaigns is None
        report = {
            **outcome.report(),
            "fitted_as_of": request.as_of if whole else order.before.get("fitted_as_of"),
            **quality,
            "top": outcome.decided(quality["top"]),
        }
        self.held.update(outcome.held)
        self.pushes[order.target] += len(new_pushes(order.target, order.before, report))
        refitted.add(order.target, outcome.atlas, report, outcome.held_because)

    def due_to_push(self, now: float) -> Iterator[str]:
        """See `Fitting.pushed`; `now` is epoch seconds. Maps that are frozen stay."""
        pushed = self._fitting.pushed(int(now // SECONDS_PER_HOUR), self.bins)
        return (target for target in pushed if target not in self._frozen()[0])

    def _report_frozen(self, request: Request, order: RefitTask, refitted: RefittedTargets) -> None:
        """How the maps do that stay."""
        closed, target_report = closed_hours(request.as_of), TargetReport(self.settings, self.bins)
        known = carried_over(order.before, closed) if request.between_hours else None
        window = target_report.window(closed)
        quality = known or self._quality(target_report, order, closed, window)
        refitted.add(order.target, None, {**order.before, **quality, FROZEN: True}, None)

    def _fits(self, request: Request, target: str, share: float) -> None:
        """So large a share of the target is fitted."""
        targets = _chosen(request, self.settings.known_targets)
        fitted = (targets.index(target) + share) / len(targets)
        done = _BEFORE + (_AFTER - _BEFORE) * fitted
        self.advance(Step(f"fitting {target}", done, target, share))

    def _history(
        self,
        request: Request,
        target: str,
        hours: int,
        window: RawWindow,
        reached: Callable[[float], None],
    ) -> History:
        behind = begun_hours(request.as_of)
        blocks = self.bins.history(target, behind - hours, behind, reached)
        fields = partial(self.bins.field_tables, target) if self.settings.fields else None
        return StoredHistory(request.as_of / SECONDS_PER_HOUR, ReadBlocks(blocks, window), fields)

    def _probabilities(self, target: str, block: Block) -> Floats:
        """Of events that are folded, by the maps in force, without effects of fields, (n,)."""
        in_force = self._in_force()
        atlas = None if in_force is None else in_force.atlases.get(target)
        if atlas is None:
            return block.scores
        return atlas.by_maps(block.campaigns, block.rows, block.scores, block.fields or {})

    def _on_trial(self, request: Request, present: _Present) -> Steering:
        """What comes of the experiments that run; the maps that serve are none of theirs."""
        if not present.in_force.steering.experiments:
            return present.in_force.steering

        def history(target: str, hours: int) -> History:
            # The targets' own parts of the work are done.
            return self._history(request, target, hours, RawWindow.none(), lambda _: None)

        again, evaluation = not request.between_hours, self._prequential
        parts = present.in_force, request.as_of, again, evaluation, self._fitting, history
        targets = _chosen(request, self.settings.targets)
        challengers = Challengers(*parts, present.own, present.frozen)
        found = challengers.refit(targets, whole=request.campaigns is None)
        return self.canary.looked_at(found, closed_hours(request.as_of))

    def _refit_delayed(
        self, request: Request, now: float, present: _Present, refitted: RefittedTargets
    ) -> None:
        """Replace what delayed targets have in force where that works; it never stops the rest."""
        every = _chosen(request, self.settings.delayed_targets)
        chosen = [target for target in every if target not in present.frozen]
        if self.delayed is None or not chosen or request.between_hours:
            return
        as_of, prepared = request.as_of, False
        with self._leaving_alone("delayed targets", as_of):
            self.delayed.prepare(now, as_of)
            prepared = True
        for target in chosen if prepared else ():
            with self._leaving_alone(target, as_of):
                self._fits(request, target, 0.0)
                order = present.order(request, target)
                report, outcome = self.delayed.refit(self._fitting, order, as_of)
                if outcome is None:
                    refitted.add(target, order.in_force, report, None)
                    continue
                refitted.add(target, outcome.atlas, report, outcome.held_because)
                self.held.update(outcome.held)

    @contextmanager
    def _leaving_alone(self, name: str, as_of: float) -> Iterator[None]:
        try:
            yield
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception:
            about = {"target": name}
            _log.exception("%s as of %s: the maps in force stay", name, as_of, extra=about)
            self.left_alone += 1

    def _moments_of(self, atlases: Mapping[str, Atlas], targets: Mapping[str, Any]) -> list[float]:
        """As of when the maps were fitted: evaluation relies on it that no map of a version has
        seen anything later than the version says, those left in force too."""
        held = (targets.get(name, {}) for name in self.settings.known_targets if name in atlases)
        return [report["fitted_as_of"] for report in held if report.get("fitted_as_of")]

    def _evaluate(self, request: Request) -> None:
        closed = closed_hours(request.as_of)
        self._prequential.run(closed, again=not request.between_hours)
        for target in () if request.between_hours else self.settings.targets:
            PcocBounds(self.bins, self.settings.window_hours).take_in(target, closed)
            self.bins.take_in_units(target, closed, self.settings.window_hours)

    @property
    def _prequential(self) -> PrequentialEvaluation:
        history = self.versions.history()
        return PrequentialEvaluation(self.settings, self.bins, self.cache, history)

    def _quality(
        self, target_report: TargetReport, order: RefitTask, closed: int, window: RawWindow
    ) -> dict[str, Any]:
        found = target_report.of(order.target, window)
        hours = self.settings.window_hours
        stored = (self.bins, self.cache, self.versions.history(), hours)
        fields = FieldsReport(*stored).of(order.target, closed) if self.settings.fields else {}
        return {
            **found,
            "bounds": PcocBounds(self.bins, hours).report(order.target),
            **MoneyReport(*stored).of(order.target, closed, order.before),
            **fields,
        }

    def _in_force(self) -> CachedVersion | None:
        """What serves: where the version in force is damaged, the newest whole one."""
        older = (entry["version"] for entry in self.versions.history())
        found = dict.fromkeys(filter(None, (self.versions.current(), *older)))
        return next(filter(None, map(self.cache.take, found)), None)

    def _present(self, request: Request, in_force: CachedVersion) -> _Present:
        compared = self.cache.serving(begun_hours(request.as_of) - 1, self.versions.history())
        own = self._own_calibrators()
        return _Present(in_force, compared or in_force, own, *self._frozen())

    def _frozen(self) -> tuple[Collection[str], str | None]:
        return ({}, None) if self.frozen is None else self.frozen.counted()

    def _own_calibrators(self) -> Mapping[str, Mapping[str, str]]:
        """Those that there are: one that was stored may have had another name once."""
        stored = {} if self.overrides is None else self.overrides.read()
        return {
            target: {campaign: name for campaign, name in own.items() if name in METHODS}
            for target, own in stored.items()
        }

    def _carried_over(
        self, request: Request, in_force: CachedVersion | None, frozen: Collection[str]
    ) -> tuple[Request, CachedVersion]:
        """What stays of the version in force; with nothing to stay, everything is fitted."""
        if in_force is None:
            return replace(request, target=None, campaigns=None), CachedVersion()
        if request.campaigns is None and request.target is None:
            # Delayed targets may have nothing to be fitted on yet, or any more.
            return request, in_force.only([*self.settings.delayed_targets, *frozen])
        return request, in_force


def _chosen(request: Request, targets: Sequence[str]) -> Sequence[str]:
    return [target for target in targets if request.target in (None, target)]
