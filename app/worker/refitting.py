"""One refit of the service: fold, judge the hours just closed, fit, publish one version."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from app.settings import Settings
from app.storage.bins_store import BinsStore
from app.storage.errors import LeaseLost, StorageUnavailable
from app.storage.lease import LeaseToken
from app.storage.versions import Versions
from app.worker.atlas_shelf import AtlasShelf, Shelved
from app.worker.delayed_targets import DelayedTargets
from app.worker.fitting import fit_blocks, fit_report
from app.worker.hours import SECONDS, begun_hours, closed_hours
from app.worker.judging import Judgement, TopCampaigns, judged
from app.worker.window import Window
from calibrators import Atlas, BinsTable, Refit

# An hour is judged when it closes and once more an hour later, when its late clicks are in.
_JUDGED_HOURS = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What to refit: every target and campaign unless named."""

    as_of: float
    target: str | None = None
    campaigns: Sequence[str] | None = None


@dataclass(slots=True)
class Refitter:
    """Runs refits against the store; time comes in with every call.

    `left_alone` counts refits of delayed targets that failed: their maps stayed in force, and the
    other targets' new ones were published.
    """

    settings: Settings
    bins: BinsStore
    versions: Versions
    delayed: DelayedTargets | None = None
    left_alone: int = 0
    shelf: AtlasShelf = field(init=False)

    def __post_init__(self) -> None:
        self.shelf = AtlasShelf(self.versions)

    def run(
        self, request: Request, lease_token: LeaseToken, now: Callable[[], float]
    ) -> dict[str, Any]:
        """Publish the maps as of a moment; returns the report, with the version.

        Judging comes before fitting, so every number of the report is out of sample. Raises
        LeaseLost when another worker has taken over: nothing is published then.
        """
        started = perf_counter()
        self.bins.fold()
        self._judge(closed_hours(request.as_of))
        request, carried = self._carried_over(request)
        atlases, targets = dict(carried.atlases), dict(carried.targets)
        for target in _chosen(request, self.settings.targets):
            window = self._window(target, request.as_of)
            fitted = fit_blocks(
                self.settings, window, window.total, request.campaigns, atlases.get(target)
            )
            atlases[target] = fitted.atlas
            before = targets.get(target, {})
            targets[target] = self._target_report(request, target, fitted, window, before)
        self._refit_delayed(request, now(), atlases, targets)
        report = {
            "as_of": max(request.as_of, carried.as_of, *self._moments_of(atlases, targets)),
            "calibrator": self.settings.calibrator,
            "refit_seconds": perf_counter() - started,
            "targets": targets,
        }
        version = self._publish(report, atlases, lease_token, now())
        return {**report, "version": version}

    def _publish(
        self,
        report: Mapping[str, Any],
        atlases: Mapping[str, Atlas],
        lease_token: LeaseToken,
        now: float,
    ) -> str:
        packed = {target: atlas.to_bytes() for target, atlas in atlases.items()}
        as_of = report["as_of"]
        version = self.versions.publish(lease_token, as_of, now, packed, dict(report))
        self.shelf.put(version, Shelved(as_of, atlases, report["targets"]))
        return version

    def _refit_delayed(
        self,
        request: Request,
        now: float,
        atlases: dict[str, Atlas],
        targets: dict[str, Any],
    ) -> None:
        """Replace what delayed targets have in force where that works; it never stops the rest."""
        chosen = _chosen(request, self.settings.delayed_targets)
        if self.delayed is None or not chosen:
            return
        as_of, prepared = request.as_of, False
        with self._leaving_alone("delayed targets", as_of):
            self.delayed.prepare(now, as_of)
            prepared = True
        for target in chosen if prepared else ():
            with self._leaving_alone(target, as_of):
                in_force, before = atlases.get(target), targets.get(target, {})
                atlas, report = self.delayed.refit(
                    target, as_of, request.campaigns, in_force, before
                )
                targets[target] = report
                if atlas is not None:
                    atlases[target] = atlas

    @contextmanager
    def _leaving_alone(self, name: str, as_of: float) -> Iterator[None]:
        try:
            yield
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception:
            _log.exception("%s as of %s: the maps in force stay", name, as_of)
            self.left_alone += 1

    def _moments_of(self, atlases: Mapping[str, Atlas], targets: Mapping[str, Any]) -> list[float]:
        """As of when the delayed targets' maps were fitted: judging relies on it that no map of a
        version has seen anything later than the version says, those left in force included."""
        held = (targets.get(name, {}) for name in self.settings.delayed_targets if name in atlases)
        return [report["fitted_as_of"] for report in held if report.get("fitted_as_of")]

    def _carried_over(self, request: Request) -> tuple[Request, Shelved]:
        """What stays of the version in force; with nothing to stay, everything is fitted."""
        version = self.versions.current()
        in_force = None if version is None else self.shelf.take(version)
        if in_force is None:
            return Request(request.as_of), Shelved()
        if request.campaigns is None and request.target is None:
            # Delayed targets may have nothing to be fitted on yet, or any more.
            return request, in_force.only(self.settings.delayed_targets)
        return request, in_force

    def _judge(self, closed: int) -> None:
        """Bin the closed hours by the probabilities that were in force, each by maps fitted on
        hours before it."""
        history = self.versions.history()
        first = closed - self.settings.window_hours
        for target in self.settings.targets:
            judged = self.bins.judged_hours(target, first, closed - _JUDGED_HOURS)
            for hour in sorted(set(range(first, closed)) - judged):
                in_force = self.shelf.serving(hour, history, self.settings.versions_kept)
                if in_force is not None:
                    self._judge_hour(target, hour, in_force.atlases.get(target, Atlas.empty()))

    def _judge_hour(self, target: str, hour: int, in_force: Atlas) -> None:
        served = self.bins.shards_of_hour(target, hour)
        self.bins.write_judged(target, hour, [table.calibrated(in_force) for table in served])

    def _window(self, target: str, as_of: float) -> Window:
        last = begun_hours(as_of)
        return Window.of(self.bins.window_blocks(target, last - self.settings.window_hours, last))

    def _target_report(
        self,
        request: Request,
        target: str,
        fitted: Refit,
        window: Window,
        before: Mapping[str, Any],
    ) -> dict[str, Any]:
        closed = closed_hours(request.as_of)
        first = closed - self.settings.window_hours
        whole = closed == begun_hours(request.as_of)
        raw = window if whole else self.bins.window_blocks(target, first, closed)
        # A refit of a few campaigns does not stand for the hour's refit of the target.
        fitted_as_of = request.as_of if request.campaigns is None else before.get("fitted_as_of")
        return {
            **fit_report(fitted),
            "fitted_as_of": fitted_as_of,
            "judged_until": closed * SECONDS,
            "hour": {
                "raw": judged(self.bins.window_blocks(target, closed - 1, closed)),
                "calibrated": judged(self.bins.judged_blocks(target, closed - 1, closed)),
            },
            **self._window_report(raw, self.bins.judged_blocks(target, first, closed)),
        }

    def _window_report(
        self, raw: Iterable[BinsTable], calibrated: Iterable[BinsTable]
    ) -> dict[str, Any]:
        """Quality and top campaigns of a window, whose tables come one after the other."""
        stages = {"raw": Judgement(), "calibrated": Judgement()}
        top = TopCampaigns(self.settings.top_campaigns)
        for table in raw:
            stages["raw"].add(table)
            top.add(table)
        for table in calibrated:
            stages["calibrated"].add(table)
            top.add_calibrated(table)
        window = {stage: judgement.row() for stage, judgement in stages.items()}
        return {"window": window, "top": top.entries}


def _chosen(request: Request, targets: Sequence[str]) -> Sequence[str]:
    return [target for target in targets if request.target in (None, target)]
