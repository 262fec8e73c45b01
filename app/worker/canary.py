"""Stops an experiment whose maps on trial are wrong: the events of its arm are weighed hour by hour
(`calibrators.canary`), each with the maps that served it.

An hour counts when its late clicks are in, an hour after its end, and once: evidence and the end of
the hours that it holds are one entry of the published version, `watch`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.experiments import ABORTED, RUNNING, Experiment
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache, CachedVersion, Steering
from app.worker.hours import SECONDS, begun_hours, closed_hours
from calibrators import Atlas, BinsTable
from calibrators.arms import CHALLENGER, CHAMPION
from calibrators.canary import BOUND, MISSING, CanaryEvidence, log_ratios

MISSED_CLICKS: Final = 100.0
"""So many clicks must be due to the arm, by the champion's and the shares, without one event whose
probability is known, before it counts as lost."""
_ALTERNATIVES: Final = ("over", "under", "champion")
# The newest closed hour may still get clicks.
_INCOMPLETE: Final = 1

_log = logging.getLogger(__name__)

History = Sequence[Mapping[str, Any]]
"""The manifests of the versions kept, newest first."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """What the hours below `until` said of an experiment: the evidence, the positives of its arm,
    predicted by either map and true, and clicks that are missed since its last event."""

    until: int
    evidence: CanaryEvidence
    predicted: float = 0.0
    predicted_by_champion: float = 0.0
    positives: float = 0.0
    missed: float = 0.0

    @classmethod
    def of(cls, experiment: Experiment) -> "_Watch":
        """As the version has it; from the first whole hour of the experiment."""
        found = experiment["watch"]
        if not found:
            return cls(begun_hours(experiment["since"]), CanaryEvidence.none())
        logs = np.array([-np.inf if found[name] is None else found[name] for name in _ALTERNATIVES])
        numbers = (found[name] for name in _NUMBERS)
        return cls(found["until"] // SECONDS, CanaryEvidence(found["hours"], logs), *numbers)

    @property
    def report(self) -> dict[str, Any]:
        """As the version will have it; no evidence (-inf) becomes None."""
        logs = zip(_ALTERNATIVES, self.evidence.logs.tolist(), strict=True)
        return {
            "until": self.until * SECONDS,
            "hours": self.evidence.hours,
            "evidence": _finite(float(self.evidence.total)),
            "bound": BOUND,
            **{name: _finite(value) for name, value in logs},
            **{name: getattr(self, name) for name in _NUMBERS},
        }

    @property
    def reason(self) -> str | None:
        """Why the experiment has to stop."""
        return MISSING if self.missed >= MISSED_CLICKS else self.evidence.reason


_NUMBERS: Final = ("predicted", "predicted_by_champion", "positives", "missed")


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


@dataclass(slots=True)
class Canary:
    """Looks at the experiments of the version in force."""

    settings: Settings
    bins: BinsStore
    versions: Versions
    cache: AtlasCache
    _looked: tuple[str | None, int] | None = None

    def watch(self, now: float) -> str | None:
        """Stop the experiments that the hours closed by now speak against, whatever becomes of
        refits; returns the version that stops them, if any. Evidence against those that go on is
        for the next refit to store."""
        closed = closed_hours(now - self.settings.refit_delay_seconds)
        version = self.versions.current()
        in_force = None if version is None else self.cache.take(version)
        if in_force is None or self._looked == (version, closed):
            return None
        self._looked = (version, closed)
        before = in_force.steering
        after = self.looked_at(before, closed).experiments
        if all(after[name]["state"] == one["state"] for name, one in before.experiments.items()):
            return None
        published = self.versions.load(str(version))
        report = {**published.report, "experiments": dict(after)}
        stopped = replace(published, report=report, published_at=now, digests={})
        # Unless another version came into force since, which is for the next look.
        return self.versions.put_in_force(stopped)

    def looked_at(self, steering: Steering, closed: int) -> Steering:
        """The experiments with what the hours below `closed`, which are closed, said of them; those
        that must not go on are aborted."""
        watched = {name: one for name, one in steering.experiments.items() if _is_watched(one)}
        if not watched:
            return steering
        history, behind = self.versions.history(), closed - _INCOMPLETE
        found = {name: self._looked_at(name, one, behind, history) for name, one in watched.items()}
        return replace(steering, experiments={**steering.experiments, **found})

    def _looked_at(
        self, target: str, experiment: Experiment, behind: int, history: History
    ) -> Experiment:
        watch = _Watch.of(experiment)
        # Of hours before the window no bins are kept.
        for hour in range(max(watch.until, behind - self.settings.window_hours), behind):
            if watch.reason is None:
                served = self.cache.serving(hour, history, self.settings.versions_kept)
                watch = self._after(watch, target, hour, served, experiment["shares"])
        found = {**experiment, "watch": watch.report}
        if watch.reason is None:
            return found
        _log.error("the experiment on %s is aborted, %s: %s", target, watch.reason, watch.report)
        return {**found, "state": ABORTED, "reason": watch.reason}

    def _after(
        self,
        watch: _Watch,
        target: str,
        hour: int,
        served: CachedVersion | None,
        shares: Mapping[str, float],
    ) -> _Watch:
        """With one more hour, and the version that served it."""
        on_trial = None if served is None else served.steering.challengers.get(target)
        tables = [one for one in self.bins.ledger(target, CHALLENGER, hour, hour + 1) if len(one)]
        watch = replace(watch, until=hour + 1)
        if served is None or on_trial is None or not tables:
            # Before there are maps on trial nobody is served by them.
            lost = bool(tables) or on_trial is not None
            return replace(watch, missed=watch.missed + lost * self._due(target, hour, shares))
        champion = served.atlases.get(target, Atlas.empty())
        return _with_events(watch, tables, on_trial, champion)

    def _due(self, target: str, hour: int, shares: Mapping[str, float]) -> float:
        """Clicks of the challenger's arm, by those of the champion's and the shares."""
        rest = 1.0 - sum(shares.values())
        tables = self.bins.ledger(target, CHAMPION, hour, hour + 1)
        clicks = sum(float(table.total().total_positives) for table in tables)
        return clicks * shares[CHALLENGER] / rest if rest > 0.0 else 0.0


def _is_watched(experiment: Experiment) -> bool:
    """Whether an experiment runs as a canary, on anybody."""
    share = experiment["shares"].get(CHALLENGER, 0.0)
    return bool(experiment["canary"] and share > 0.0 and experiment["state"] == RUNNING)


def _with_events(
    watch: _Watch, tables: Sequence[BinsTable], on_trial: Atlas, champion: Atlas
) -> _Watch:
    """With the events of the arm in one hour, in tables by cells of scores."""
    ratios, sums = np.zeros(len(_ALTERNATIVES)), np.zeros(3)
    for table in tables:
        scores, outcomes, counts, rows = table.samples()
        predicted, instead = (
            atlas.look_up(atlas.rows(table.campaigns)[rows], scores)
            for atlas in (on_trial, champion)
        )
        positives = outcomes * counts
        ratios += log_ratios(predicted, instead, counts, positives)
        sums += (counts @ predicted, counts @ instead, positives.sum())
    return replace(
        watch,
        evidence=watch.evidence.after(ratios),
        predicted=watch.predicted + float(sums[0]),
        predicted_by_champion=watch.predicted_by_champion + float(sums[1]),
        positives=watch.positives + float(sums[2]),
        missed=0.0,
    )
