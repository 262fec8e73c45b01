"""The daily training of a delayed target: delay distribution, post-click model, and their quality.

Quality is measured on matured clicks, those whose attribution window is over, by a model that has
not seen them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.click_log.clicks import LoggedClicks
from app.click_log.log import ClickLog, ClickReader
from app.settings import SECONDS_PER_DAY, Settings
from app.storage.lease import LeaseToken
from app.storage.models import Models, Trained
from app.worker.model_cache import CachedModel, ModelCache
from app.worker.monitoring import Row, scorecard_of
from app.worker.progress import PUBLISHING
from app.worker.relabelling import DAYS_SHOWN, DayRecord, Span, observed_days, score
from calibrators import BinsTable
from calibrators.samples import Floats
from evaluation.metrics.calibration import pooled_scores
from evaluation.metrics.predictions import Predictions
from pccem import (
    Attribution,
    Clicks,
    Cohorts,
    DelayDistribution,
    FeatureMismatch,
    Features,
    PostClickModel,
    Training,
    TrainingRules,
    seal,
    train,
)


class ConvertedClicks:
    """What delays are learnt from: clicks that did not convert tell nothing about them."""

    def __init__(self, clicks: Clicks, known: Attribution) -> None:
        """Those of the clicks that have converted, without their features."""
        bare, chosen = replace(clicks, features=Features({}, len(clicks))), known.converted
        self.clicks = bare.select(chosen)
        self.delay, self.age = known.delay[chosen], known.age[chosen]


_MOST_EXPECTED = 250_000


@dataclass(frozen=True, slots=True)
class Expectation:
    """What says how many conversions to expect: a model, without one the scores themselves.

    post_click : seconds, those of the model's training; 0 without one.
    """

    model: PostClickModel | None
    post_click: float
    num_threads: int

    def cohorts(self, clicks: Clicks, known: Attribution) -> Cohorts | None:
        """The clicks, of many every k-th; None where the model cannot score them."""
        some = slice(None, None, max(1, math.ceil(len(clicks) / _MOST_EXPECTED)))
        chosen = clicks.select(some)
        try:
            p = chosen.scores if self.model is None else score(self.model, chosen, self.num_threads)
        except FeatureMismatch:
            return None
        return Cohorts.of(
            p,
            chosen.clicked_at,
            known.age[some],
            known.delay[some],
            window=known.window,
            post_click=self.post_click,
        )


def fitted_delays(
    log: ClickReader,
    mature: ConvertedClicks,
    target: str,
    expectation: Expectation,
    *,
    window: float,
    as_of: float,
    closed: float,
) -> DelayDistribution | None:
    """The target's distribution as of a moment; None with too few conversions.

    `mature` are the clicks that the caller has read already; the younger ones, up to `closed`, are
    read here, and what was expected of them is kept with the distribution.
    """
    parts, cohorts = [mature], []
    for young, known in _young(log, target, closed, window=window, as_of=as_of):
        parts.append(ConvertedClicks(young, known))
        cohorts.append(expectation.cohorts(young, known))
    clicks = Clicks.concatenate(part.clicks for part in parts)
    delays = DelayDistribution.fit(
        np.concatenate([part.delay for part in parts]),
        np.concatenate([part.age for part in parts]),
        clicks.rows,
        clicks.campaigns,
        window=window,
        as_of=as_of,
    )
    told = [part for part in cohorts if part is not None]
    if delays is None or not told:
        return delays
    return replace(delays, cohorts=Cohorts.concatenate(told))


def _young(
    log: ClickReader, target: str, closed: float, *, window: float, as_of: float
) -> Iterator[tuple[Clicks, Attribution]]:
    first = as_of - window
    while first < closed:
        behind = min(first + SECONDS_PER_DAY, closed)
        logged, known = log.known(target, first, behind, window=window, as_of=as_of)
        yield logged.clicks, known
        first = behind


Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MaturedClicks:
    """Clicks whose outcomes are final, all of a span or a sample of them."""

    clicks: LoggedClicks
    attribution: Attribution

    @property
    def outcomes(self) -> Floats:
        """(n,) 1 for a click that converted."""
        return self.attribution.converted.astype(np.float64)

    @property
    def weight(self) -> float:
        """Clicks that each one stands for."""
        return self.clicks.total / len(self.clicks) if len(self.clicks) else 1.0

    def within(self, span: Span) -> Flags:
        """(n,) which of the clicks are of a span."""
        at = self.clicks.clicks.clicked_at
        return (at >= span[0]) & (at < span[1])

    def report(self, span: Span, cached: CachedModel | None, num_threads: int) -> dict[str, Any]:
        """Quality of raw scores, of served probabilities and of the model on a span's clicks,
        against what came of them."""
        chosen = self.within(span)
        served = self.clicks.probabilities
        return {
            "first": span[0],
            "behind": span[1],
            "raw": self._quality(self.clicks.clicks.scores, chosen),
            "calibrated": self._quality(served, chosen & ~np.isnan(served)),
            "model": None if cached is None else self._of_model(cached, chosen, num_threads),
        }

    def _quality(self, values: Floats, chosen: Flags) -> Row:
        clicks = self.clicks.clicks
        rows = clicks.rows[chosen].astype(np.int64)
        counts, outcomes = np.ones(len(rows)), self.outcomes[chosen]
        columns = (rows, values[chosen], counts, outcomes)
        return scorecard_of([BinsTable.from_columns(clicks.campaigns, *columns)])

    def _of_model(self, cached: CachedModel, chosen: Flags, num_threads: int) -> Row | None:
        """On the clicks that had not converted when the model was asked; None without one, and
        where the features are not those that it was trained on."""
        if cached.model is None:
            return None
        asked = chosen & ~(self.attribution.delay < cached.post_click)
        try:
            scores = score(cached.model, self.clicks.clicks.select(asked), num_threads)
        except FeatureMismatch:
            return None
        row = pooled_scores(Predictions.check(scores, self.outcomes[asked], None))
        return {name: value if math.isfinite(value) else None for name, value in row.items()}


Report = dict[str, Any]

# A conversion is looked at a day after it came: by then its click is closed.
_CLOSED_AFTER = SECONDS_PER_DAY
# How far beyond its attribution window a conversion's click is looked for.
_REACH_BEYOND = 2 * SECONDS_PER_DAY


class NothingToTrain(ValueError):
    """The click log gives neither a model nor a delay distribution yet."""


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """What to train: a delayed target, its attribution window in seconds, as of a moment.

    `expected` are the records of what the labels of recent days added up to.
    """

    target: str
    window: float
    as_of: float
    expected: Sequence[DayRecord] = ()

    @property
    def mature(self) -> float:
        """Clicks before this moment are mature."""
        return self.as_of - self.window


def training_span(task: TrainingTask, settings: Settings) -> Span:
    """The mature clicks that a training learns from."""
    return task.mature - settings.training_days * SECONDS_PER_DAY, task.mature


@dataclass(frozen=True, slots=True)
class _Model:
    """A sealed model, its features and the report of its training."""

    sealed: bytes | None = None
    features: dict[str, str] = field(default_factory=dict)
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class EarlierTrainings:
    """What stays in force where there is nothing new, and what the newly matured clicks evaluate.

    before : the newest training.
    matured_since : as of when clicks were mature that a training has seen; None before the first.
    evaluated : the model of then, that has not seen the clicks which matured since.
    """

    before: CachedModel | None = None
    matured_since: float | None = None
    evaluated: CachedModel | None = None


def training_rules(settings: Settings) -> TrainingRules:
    """How a post-click model is trained."""
    return TrainingRules(
        days=settings.training_days,
        min_clicks=settings.min_training_clicks,
        min_conversions=settings.min_training_conversions,
        max_clicks=settings.training_clicks,
        num_threads=settings.training_threads,
        post_click=settings.post_click_seconds,
    )


@dataclass(slots=True)
class Trainer:
    """Trains against the click log and the store; time comes in with every call."""

    settings: Settings
    models: Models
    cache: ModelCache
    key: Callable[[], bytes]

    def run(
        self,
        log: ClickLog,
        task: TrainingTask,
        lease_token: LeaseToken,
        now: Callable[[], float],
        advance: Callable[[str, float], None] = lambda *_: None,
    ) -> Report:
        """Publish what was learnt; returns its report, with the version.

        `advance` is called with each phase and the share that is done. Raises NothingToTrain with
        too few clicks or conversions for anything, and LeaseLost when another worker has taken
        over: nothing is published then.
        """
        lesson = Lesson(self.settings, self.key)
        trained = lesson.trained(log, task, self._earlier(task), now, advance)
        advance(PUBLISHING, 0.95)
        version = self.models.publish(lease_token, trained)
        return {**trained.report, "version": version, "source": trained.source}

    def _earlier(self, task: TrainingTask) -> EarlierTrainings:
        of_target = (task.target, task.window)
        newest = task.as_of - SECONDS_PER_DAY
        last = self.cache.last_as_of(*of_target, newest)
        return EarlierTrainings(
            self.cache.newest(*of_target, task.as_of),
            last,
            self.cache.newest(*of_target, newest if last is None else last),
        )


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a click log teaches; `key` signs the model."""

    settings: Settings
    key: Callable[[], bytes]

    def trained(
        self,
        log: ClickReader,
        task: TrainingTask,
        earlier: EarlierTrainings,
        now: Callable[[], float],
        advance: Callable[[str, float], None] = lambda *_: None,
    ) -> Trained:
        """A delay distribution, and a model where it is good enough.

        `advance` is called as above. Raises NothingToTrain as above.
        """
        started, before = perf_counter(), earlier.before
        advance(f"reading the clicks of {task.target}", 0.1)
        past = self._past(log, task)
        advance(f"training {task.target}", 0.3)
        training = self._train(past, task, before)
        report: Report = {
            "training": {**training.report, "refused": training.refused},
            "matured": {**self._matured(past, task, earlier), "days": self._days(past, task)},
        }
        converted = ConvertedClicks(past.clicks.clicks, past.attribution)
        # By far the largest part, and more is read below.
        del past
        advance(f"fitting the delays of {task.target}", 0.7)
        delays = fitted_delays(
            log,
            converted,
            task.target,
            self._expectation(training, before),
            window=task.window,
            as_of=task.as_of,
            # Younger ones may be open still: a training that comes late must learn the same.
            closed=task.as_of - self.settings.post_click_seconds,
        )
        report["delay_median"] = None if delays is None else delays.median()
        report["strays"] = self._unattributed(log, task, before)
        report["seconds"] = perf_counter() - started
        return self._trained(task, training, delays, before, report, now())

    def _expectation(self, training: Training, before: CachedModel | None) -> Expectation:
        """That of the model that will be in force."""
        settings = self.settings
        if training.model is not None:
            post_click = settings.post_click_seconds
            return Expectation(training.model, post_click, settings.training_threads)
        if before is None or before.model is None:
            return Expectation(None, 0.0, settings.training_threads)
        return Expectation(before.model, before.post_click, settings.training_threads)

    def _past(self, log: ClickReader, task: TrainingTask) -> MaturedClicks:
        """The mature clicks to learn from, or a sample of them."""
        clicks, known = log.known(
            task.target,
            *training_span(task, self.settings),
            window=task.window,
            as_of=task.as_of,
            max_clicks=self.settings.training_clicks,
        )
        return MaturedClicks(clicks, known)

    def _train(
        self, past: MaturedClicks, task: TrainingTask, before: CachedModel | None
    ) -> Training:
        in_force = None if before is None else before.model
        return train(
            past.clicks.clicks,
            past.attribution,
            as_of=task.as_of,
            rules=training_rules(self.settings),
            in_force=in_force,
        )

    def _matured(
        self, past: MaturedClicks, task: TrainingTask, earlier: EarlierTrainings
    ) -> Report:
        """Quality on the clicks that matured since the last training, of the model it published:
        one that has not seen them."""
        last = earlier.matured_since
        first, behind = training_span(task, self.settings)
        since = task.as_of - SECONDS_PER_DAY if last is None else last
        span = max(since - task.window, first), behind
        return past.report(span, earlier.evaluated, self.settings.training_threads)

    def _days(self, past: MaturedClicks, task: TrainingTask) -> list[DayRecord]:
        """Expected and observed conversions of the last click days that are all mature."""
        at, converted = past.clicks.clicks.clicked_at, past.attribution.converted
        span = training_span(task, self.settings)
        return observed_days(task.expected, at, converted, span, past.weight)[-DAYS_SHOWN:]

    def _unattributed(
        self, log: ClickReader, task: TrainingTask, before: CachedModel | None
    ) -> Report:
        """Conversions that counted for no click, since the first training."""
        behind = task.as_of - _CLOSED_AFTER
        counted = None if before is None else before.trained.report["strays"]
        if counted is None:
            counted = {"behind": behind - SECONDS_PER_DAY}
        if behind <= counted["behind"]:
            return dict(counted)
        reach = task.window + _REACH_BEYOND
        found = log.unattributed(
            task.target, counted["behind"], behind, window=task.window, reach=reach
        )
        sums = {name: counted.get(name, 0) + number for name, number in asdict(found).items()}
        return {"behind": behind, **sums}

    def _trained(
        self,
        task: TrainingTask,
        training: Training,
        delays: DelayDistribution | None,
        before: CachedModel | None,
        report: Report,
        now: float,
    ) -> Trained:
        """What is new, and what stays in force where there is nothing new."""
        packed = None if delays is None else delays.to_dict()
        if packed is None and before is not None:
            packed = before.trained.delays
        model = self._model(task, training, before, now)
        if packed is None and model.sealed is None:
            raise NothingToTrain(training.refused)
        return Trained(
            task.target,
            task.window,
            task.as_of,
            now,
            "delays" if model.sealed is None else "model",
            {"model": model.report, **report},
            packed,
            model.features,
            model.sealed,
        )

    def _model(
        self, task: TrainingTask, training: Training, before: CachedModel | None, now: float
    ) -> _Model:
        if training.model is not None:
            sealed = seal(training.model.to_bytes(), self.key())
            about = {
                "as_of": task.as_of,
                "trained_at": now,
                "post_click": self.settings.post_click_seconds,
                **training.report,
            }
            return _Model(sealed, dict(training.model.feature_kinds), about)
        if before is None or before.model is None:
            return _Model()
        kept = before.trained
        return _Model(kept.model, kept.features, kept.report["model"])
