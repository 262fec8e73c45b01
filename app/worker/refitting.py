"""One refit of the service: fold, judge the hours just closed, fit, publish one version."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from app.settings import Settings
from app.storage.bins_store import BinsStore
from app.storage.lease import LeaseToken
from app.storage.versions import Versions
from app.worker.atlas_shelf import AtlasShelf, Shelved
from app.worker.hours import SECONDS, begun_hours, closed_hours, version_before
from app.worker.judging import quality, top_campaigns
from calibrators import (
    Atlas,
    BinsTable,
    Calibrator,
    Refit,
    Sufficiency,
    make_calibrator,
    refit,
    refit_campaigns,
)

# An hour is judged when it closes and once more an hour later, when its late clicks are in.
_JUDGED_HOURS = 2


@dataclass(frozen=True, slots=True)
class Request:
    """What to refit: every target and campaign unless named."""

    as_of: float
    target: str | None = None
    campaigns: Sequence[str] | None = None


@dataclass(slots=True)
class Refitter:
    """Runs refits against the store; time comes in with every call."""

    settings: Settings
    bins: BinsStore
    versions: Versions
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
        for target in self._targets_of(request):
            window = self._window(target, request.as_of)
            fitted = self._fit(request, window, atlases.get(target))
            atlases[target] = fitted.atlas
            before = targets.get(target, {})
            targets[target] = self._target_report(request, target, fitted, window, before)
        report = {
            # Judging relies on it: no map of the version has seen anything later.
            "as_of": max(request.as_of, carried.as_of),
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

    def _targets_of(self, request: Request) -> Sequence[str]:
        return [request.target] if request.target else self.settings.targets

    def _carried_over(self, request: Request) -> tuple[Request, Shelved]:
        """What stays of the version in force; with nothing to stay, everything is fitted."""
        version = self.versions.current()
        everything = request.campaigns is None and request.target is None
        in_force = None if everything or version is None else self.shelf.take(version)
        return (Request(request.as_of), Shelved()) if in_force is None else (request, in_force)

    def _judge(self, closed: int) -> None:
        """Bin the closed hours by the probabilities that were in force, each by maps fitted on
        hours before it."""
        history = self.versions.history()
        first = closed - self.settings.window_hours
        for target in self.settings.targets:
            judged = self.bins.judged_hours(target, first, closed - _JUDGED_HOURS)
            for hour in sorted(set(range(first, closed)) - judged):
                in_force = self._in_force_before(hour, history)
                if in_force is not None:
                    self._judge_hour(target, hour, in_force.atlases.get(target, Atlas.empty()))

    def _in_force_before(self, hour: int, history: Sequence[Mapping[str, Any]]) -> Shelved | None:
        """What served the hour; None when that cannot be known any more."""
        version = version_before(history, hour)
        if version is not None:
            return self.shelf.take(version)
        # A full history has dropped versions; before the very first the identity served.
        return None if len(history) >= self.settings.versions_kept else Shelved()

    def _judge_hour(self, target: str, hour: int, in_force: Atlas) -> None:
        served = self.bins.hour(target, hour)
        self.bins.write_judged(target, hour, served.calibrated(in_force))

    def _fit(self, request: Request, window: BinsTable, in_force: Atlas | None) -> Refit:
        calibrator = configured_calibrator(self.settings)
        if request.campaigns is None:
            return refit(window, calibrator, self._sufficiency)
        atlas = in_force or Atlas.empty()
        return refit_campaigns(atlas, window, request.campaigns, calibrator, self._sufficiency)

    @property
    def _sufficiency(self) -> Sufficiency:
        return Sufficiency(self.settings.min_samples, self.settings.min_positives)

    def _window(self, target: str, as_of: float) -> BinsTable:
        last = begun_hours(as_of)
        return self.bins.window(target, last - self.settings.window_hours, last)

    def _target_report(
        self,
        request: Request,
        target: str,
        fitted: Refit,
        window: BinsTable,
        before: Mapping[str, Any],
    ) -> dict[str, Any]:
        closed = closed_hours(request.as_of)
        first = closed - self.settings.window_hours
        whole = closed == begun_hours(request.as_of)
        raw = window if whole else self.bins.window(target, first, closed)
        calibrated = self.bins.judged_window(target, first, closed)
        last_hour = {
            "raw": self.bins.hour(target, closed - 1),
            "calibrated": self.bins.judged_window(target, closed - 1, closed),
        }
        # A refit of a few campaigns does not stand for the hour's refit of the target.
        fitted_as_of = request.as_of if request.campaigns is None else before.get("fitted_as_of")
        reasons = list(fitted.skipped.values())
        return {
            "fitted": len(fitted.atlas),
            "skipped": {reason: reasons.count(reason) for reason in sorted(set(reasons))},
            "fitted_as_of": fitted_as_of,
            "judged_until": closed * SECONDS,
            "hour": {stage: quality(table) for stage, table in last_hour.items()},
            "window": {"raw": quality(raw), "calibrated": quality(calibrated)},
            "top": top_campaigns(raw, calibrated, self.settings.top_campaigns),
        }


def configured_calibrator(settings: Settings) -> Calibrator:
    """The calibrator that the settings name, with their bin size."""
    return make_calibrator(settings.calibrator, settings.bin_size)
