"""Experiments as a refit sees them.

`Challengers`: maps on trial are evaluated hour by hour, each with those that were in force when it
began, and fitted beside the maps that serve, without the guard.

`Canary` stops an experiment whose maps on trial are wrong: the events of its arm are weighed hour
by hour (`calibrators.canary`), each with the maps that served it. An hour counts when its late
clicks are in, an hour after its end, and once: evidence and the end of the hours that it holds are
one entry of the published version, `watch`. Hours that are not over so long are looked at with
every fold: where the clicks so far, measured by those of the champion's arm, are enough to tell,
nobody waits for more.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.errors import LeaseLost, StorageUnavailable
from app.storage.experiments import ABORTED, CHALLENGER_OF, RUNNING, Experiment
from app.storage.keys import begun_hours, closed_hours
from app.storage.overrides import frozen_campaigns
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache, CachedVersion, Steering
from app.worker.fitting import Fitting, kept
from app.worker.monitoring import PrequentialEvaluation, Row, effects_in, scorecard_of
from calibrators import Atlas, BinsTable
from calibrators.arms import CHALLENGER, CHAMPION
from calibrators.bins.table import History
from calibrators.canary import BOUND, MISSING, CanaryEvidence, log_ratios
from calibrators.registry import METHODS
from calibrators.samples import Floats

Report = Mapping[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Challengers:
    """The experiments of the version `in_force`, at a refit as of a moment.

    `history` gives so many hours of a target's bins; `own` are calibrators of campaigns that have
    theirs, by target; what is `frozen` keeps the maps that serve it. Between whole hours, hours
    that were evaluated are not evaluated `again`.
    """

    in_force: CachedVersion
    as_of: float
    again: bool
    evaluation: PrequentialEvaluation
    fitting: Fitting
    history: Callable[[str, int], History]
    own: Mapping[str, Mapping[str, str]]
    frozen: Collection[str]

    def refit(self, targets: Sequence[str], whole: bool) -> Steering:
        """What comes of the experiments: those of these targets are evaluated, and fitted where the
        refit is of `whole` targets."""
        steering = self.in_force.steering
        challengers, trials = dict(steering.challengers), dict(steering.trials)
        for target in targets:
            if target in steering.experiments:
                trials[target] = self._evaluated(target, trials[target])
                if whole and "method" in steering.experiments[target]["challenger"]:
                    trials[target] = self._refit(target, trials[target], challengers)
        return replace(steering, challengers=challengers, trials=trials)

    def _evaluated(self, target: str, before: Report) -> Report:
        """The report with the quality of the hours since the maps on trial were there, and that of
        the maps that served, in the same hours."""
        closed = closed_hours(self.as_of)
        window = self.fitting.settings.window_hours
        hours = range(max(before.get("first_hour", closed), closed - window), closed)
        done = not self.again and before.get("judged_until") == closed * SECONDS_PER_HOUR
        if done or not hours or target not in self.in_force.steering.challengers:
            return before
        self.evaluation.run_challenger(target, hours, self.again)
        return {
            **before,
            "judged_until": closed * SECONDS_PER_HOUR,
            **self._rows(CHALLENGER_OF(target), hours),
            "champion": self._rows(target, hours),
        }

    def _rows(self, name: str, hours: range) -> dict[str, Row]:
        blocks = self.evaluation.bins.window_blocks
        firsts = {"hour": hours.stop - 1, "window": hours.start}
        return {
            span: scorecard_of(blocks(name, first, hours.stop, calibrated=True), floors=True)
            for span, first in firsts.items()
        }

    def _refit(self, target: str, before: Report, challengers: dict[str, Atlas]) -> Report:
        """Its maps are put among the challengers; of a fit that fails, those before stay."""
        method = self.in_force.steering.experiments[target]["challenger"]["method"]
        first = before.get("first_hour") if target in challengers else None
        try:
            fitted = self._fitted(target, method)
            # What is on trial must not undo what an operator has switched off.
            frozen = frozen_campaigns(self.frozen, target)
            challengers[target] = kept(fitted, self.in_force.atlases.get(target), frozen)
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception as error:
            _log.exception("%s: maps on trial as of %s", target, self.as_of)
            return {**before, "failed": f"{type(error).__name__}: {error}"[:200]}
        return {
            **before,
            "calibrator": method,
            "fitted": len(challengers[target]),
            "fitted_as_of": self.as_of,
            "first_hour": begun_hours(self.as_of) if first is None else first,
            "failed": None,
        }

    def _fitted(self, target: str, method: str) -> Atlas:
        if method not in METHODS:
            raise ValueError(f"method = {method}: must be one of {', '.join(METHODS)}")
        name, own = CHALLENGER_OF(target), self.own.get(target, {})
        # Under a name of its own, so that the method remembers nothing of the maps that serve.
        settings = self.fitting.settings.model_copy(update={"guard": False})
        fitting = Fitting(settings, self.fitting.methods, {name: method})
        history = self.history(target, fitting.hours(name, own))
        return fitting.whole(name, history, own).atlas


MISSED_CLICKS: Final = 100.0
"""So many clicks must be due to the arm, by the champion's and the shares, without one event whose
probability is known, before it counts as lost."""
_ALTERNATIVES: Final = ("over", "under", "champion")
# The newest closed hour may still get clicks.
_INCOMPLETE: Final = 1
_FEWEST_CLICKS: Final = 100.0
_TIMES_AS_MANY: Final = 3.0
"""So many clicks the champion's arm must have in an hour, and so many times those that it predicts
of the challenger's must it predict, to tell which share of the clicks has come."""
_LEVELS: Final = (1.0, 1 / 1.1, 1.1, 1 / 1.21, 1.21)
"""True clicks over those that the champion predicts, as they may be. What it is off by itself must
not be taken for clicks that have not come, or maps that put it right would be stopped."""

_Served = Callable[[BinsTable], Floats]
"""The probabilities of a table's samples, (n,)."""

Manifests = Sequence[Mapping[str, Any]]
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
        return cls(
            found["until"] // SECONDS_PER_HOUR, CanaryEvidence(found["hours"], logs), *numbers
        )

    @property
    def report(self) -> dict[str, Any]:
        """As the version will have it; no evidence (-inf) becomes None."""
        logs = zip(_ALTERNATIVES, self.evidence.logs.tolist(), strict=True)
        return {
            "until": self.until * SECONDS_PER_HOUR,
            "hours": self.evidence.hours,
            "evidence": finite(float(self.evidence.total)),
            "bound": BOUND,
            **{name: finite(value) for name, value in logs},
            **{name: getattr(self, name) for name in _NUMBERS},
        }

    @property
    def reason(self) -> str | None:
        """Why the experiment has to stop."""
        return MISSING if self.missed >= MISSED_CLICKS else self.evidence.reason


_NUMBERS: Final = ("predicted", "predicted_by_champion", "positives", "missed")


def finite(value: float) -> float | None:
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
        if in_force is None or not any(map(_is_watched, in_force.steering.experiments.values())):
            return None
        before = after = in_force.steering.experiments
        if self._looked != (version, closed):
            after = self.looked_at(in_force.steering, closed).experiments
        ahead = {name: self._ahead(name, one, in_force, now) for name, one in after.items()}
        after = {name: ahead[name] or one for name, one in after.items()}
        if all(after[name]["state"] == one["state"] for name, one in before.items()):
            self._looked = (version, closed)
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
        self, target: str, experiment: Experiment, behind: int, history: Manifests
    ) -> Experiment:
        watch = _Watch.of(experiment)
        # Of hours before the window no bins are kept.
        for hour in range(max(watch.until, behind - self.settings.window_hours), behind):
            if watch.reason is None:
                served = self.cache.serving(hour, history)
                watch = self._after(watch, target, hour, served, experiment)
        if watch.reason is None:
            return {**experiment, "watch": watch.report}
        ended = float((behind + _INCOMPLETE) * SECONDS_PER_HOUR)
        return _aborted(target, experiment, watch, watch.reason, ended)

    def _ahead(
        self, target: str, experiment: Experiment, in_force: CachedVersion, now: float
    ) -> Experiment | None:
        """Aborted, where the hours that may still get clicks are enough to tell; None otherwise."""
        if not _is_watched(experiment):
            return None
        seen = []
        for level in _LEVELS:
            seen.append(self._by_now(target, experiment, in_force, now, level))
            if seen[-1].evidence.reason is None:
                return None
        return _aborted(target, experiment, seen[0], seen[0].evidence.reason, now)

    def _by_now(
        self, target: str, experiment: Experiment, in_force: CachedVersion, now: float, level: float
    ) -> _Watch:
        """With the hours that may still get clicks, if the champion's level is this."""
        watch, since = _Watch.of(experiment), experiment["since"]
        first = watch.until if experiment["watch"] else closed_hours(since)
        history = self.versions.history()
        newest = closed_hours(now)
        # Of hours before the window no bins are kept.
        for hour in range(max(first, newest - self.settings.window_hours), newest + 1):
            served = self.cache.serving(hour, history)
            then = Steering() if served is None else served.steering
            # What was on trial before, in the same hour, is not on trial now.
            same = then.experiments.get(target, {}).get("since") == since
            if served is None or not same or target not in then.challengers:
                served = in_force
            watch = self._so_far(watch, target, hour, served, level)
        return watch

    def _so_far(
        self, watch: _Watch, target: str, hour: int, served: CachedVersion, level: float
    ) -> _Watch:
        """With what an hour says already, if it says anything."""
        on_trial, tables = served.steering.challengers.get(target), self._of_arm(target, hour)
        if on_trial is None or not tables:
            return watch
        champion = self._served(target, hour, served.atlases.get(target, Atlas.empty()))
        sides = self._served(target, hour, on_trial), champion
        predicted, come = self._clicks_of_champion(target, hour, champion)
        whole = _with_events(watch, tables, sides)
        due = whole.predicted_by_champion - watch.predicted_by_champion
        if come < _FEWEST_CLICKS or predicted < _TIMES_AS_MANY * due:
            return watch
        share = come / max(predicted * level, come)
        return _with_events(watch, tables, sides, share)

    def _of_arm(self, target: str, hour: int) -> list[BinsTable]:
        """The challenger's events of an hour, in tables by cells of scores."""
        return [one for one in self.bins.breakdown(target, CHALLENGER, hour, hour + 1) if len(one)]

    def _served(self, target: str, hour: int, atlas: Atlas) -> _Served:
        """With what its effects of fields were in an hour, of the mix of all arms."""
        return partial(atlas.of_samples, ratios=effects_in(self.bins, target, hour, atlas))

    def _clicks_of_champion(self, target: str, hour: int, champion: _Served) -> tuple[float, float]:
        """Those predicted of its arm in an hour, and those that have come."""
        predicted = come = 0.0
        for table in self.bins.breakdown(target, CHAMPION, hour, hour + 1):
            _, outcomes, counts, _ = table.samples()
            predicted += float(counts @ champion(table))
            come += float(outcomes @ counts)
        return predicted, come

    def _after(
        self,
        watch: _Watch,
        target: str,
        hour: int,
        served: CachedVersion | None,
        experiment: Experiment,
    ) -> _Watch:
        """With one more hour, and the version that served it."""
        on_trial = None if served is None else served.steering.challengers.get(target)
        tables, watch = self._of_arm(target, hour), replace(watch, until=hour + 1)
        if served is None or on_trial is None or not tables:
            # Before there are maps on trial nobody is served by them.
            lost = bool(tables) or on_trial is not None
            then = experiment if served is None else served.steering.experiments.get(target, {})
            due = self._due(target, hour, then.get("shares", {})) if lost else 0.0
            return replace(watch, missed=watch.missed + due)
        of_both = on_trial, served.atlases.get(target, Atlas.empty())
        return _with_events(watch, tables, [self._served(target, hour, each) for each in of_both])

    def _due(self, target: str, hour: int, shares: Mapping[str, float]) -> float:
        """Clicks of the challenger's arm, by those of the champion's and the shares."""
        rest = 1.0 - sum(shares.values())
        tables = self.bins.breakdown(target, CHAMPION, hour, hour + 1)
        clicks = sum(float(table.total().total_positives) for table in tables)
        return clicks * shares.get(CHALLENGER, 0.0) / rest if rest > 0.0 else 0.0


def _is_watched(experiment: Experiment) -> bool:
    """Whether an experiment runs as a canary, on anybody."""
    share = experiment["shares"].get(CHALLENGER, 0.0)
    return bool(experiment["canary"] and share > 0.0 and experiment["state"] == RUNNING)


def _aborted(
    target: str, experiment: Experiment, watch: _Watch, reason: str | None, at: float
) -> Experiment:
    """The experiment as it ends at a moment, epoch seconds."""
    _log.error("the experiment on %s is aborted, %s: %s", target, reason, watch.report)
    about = {"state": ABORTED, "reason": reason, "aborted_at": at}
    return {**experiment, **about, "watch": watch.report}


def _with_events(
    watch: _Watch, tables: Sequence[BinsTable], served: Sequence[_Served], come: float = 1.0
) -> _Watch:
    """With the events of the arm in one hour, in tables by cells of scores, of whose clicks this
    share has come, as the challenger and the champion predict them."""
    ratios, sums = np.zeros(len(_ALTERNATIVES)), np.zeros(3)
    for table in tables:
        _, outcomes, counts, _ = table.samples()
        predicted, instead = (come * probabilities(table) for probabilities in served)
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
