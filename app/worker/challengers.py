"""Experiments as a refit sees them: maps on trial are evaluated hour by hour, each with those that
were in force when it began, and fitted beside the maps that serve, without the guard.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.storage.bins import BinsStore
from app.storage.errors import LeaseLost, StorageUnavailable
from app.storage.experiments import CHALLENGER_OF
from app.storage.overrides import frozen_campaigns
from app.worker.atlas_cache import CachedVersion, Steering
from app.worker.fitting import Fitting, kept
from app.worker.hours import SECONDS, begun_hours, closed_hours
from app.worker.monitoring import PrequentialEvaluation, Row, scorecard_of
from calibrators import Atlas
from calibrators.bins.history import History
from calibrators.registry import METHODS

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
        hours = range(max(before.get("first_hour", closed), closed - self._window), closed)
        done = not self.again and before.get("judged_until") == closed * SECONDS
        if done or not hours or target not in self.in_force.steering.challengers:
            return before
        self.evaluation.run_challenger(target, hours, self.again)
        return {
            **before,
            "judged_until": closed * SECONDS,
            **self._rows(CHALLENGER_OF(target), hours),
            "champion": self._rows(target, hours),
        }

    def _rows(self, name: str, hours: range) -> dict[str, Row]:
        bins, newest = self._bins, hours.stop - 1
        return {
            "hour": scorecard_of(bins.calibrated_blocks(name, newest, hours.stop), floors=True),
            "window": scorecard_of(
                bins.calibrated_blocks(name, hours.start, hours.stop), floors=True
            ),
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

    @property
    def _bins(self) -> BinsStore:
        return self.evaluation.bins

    @property
    def _window(self) -> int:
        return self.fitting.settings.window_hours
