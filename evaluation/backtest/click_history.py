"""Clicks with late conversions: what a service would have known of them, day by day.

A stream of clicks, the windows that a refit of a delayed target learns from, the post-click models
and delay distributions of each day, and the rule of where labels come from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrators import BinsTable
from calibrators.bins.table import History
from calibrators.samples import Floats, Integers, check_equal_lengths, check_rules
from evaluation.backtest.event_table import SECONDS_PER_HOUR
from pccem import (
    Attribution,
    Clicks,
    Cohorts,
    DelayDistribution,
    LabelRules,
    PostClickModel,
    Training,
    TrainingRules,
    attribute,
    label,
    train,
)


def labelled_history(clicks: Clicks, labels: Floats) -> History:
    """The bins of the clicks by the hour of the click; labels, (n,), are their positives.

    Its moment is the end of the newest click's hour, not that of the refit: labels come a window
    late, and clicks of a week ago are the newest that have final ones.
    """
    hours = np.floor(clicks.clicked_at / SECONDS_PER_HOUR).astype(np.int64)
    if not len(hours):
        return History(0.0, [{}])
    present = np.unique(hours).tolist()
    tables = {hour: _bins(clicks, labels, np.flatnonzero(hours == hour)) for hour in present}
    return History(present[-1] + 1.0, [tables])


def _bins(clicks: Clicks, labels: Floats, chosen: Integers) -> BinsTable:
    rows = clicks.rows[chosen].astype(np.int64)
    counts = np.ones(len(rows))
    return BinsTable.from_columns(
        clicks.campaigns, rows, clicks.scores[chosen], counts, labels[chosen]
    )


@dataclass(frozen=True, slots=True)
class ClickWindows:
    """The windows of a delayed target, and the clicks that they leave to a refit as of t.

    hours : hours of clicks that a refit learns from, at least 1.
    post_click : seconds in which a click gathers behaviours, above 0.
    attribution : seconds after its click in which a conversion counts, at least `post_click`.

    >>> ClickWindows().recent(1_000_000.0)
    (910000.0, 996400.0)
    """

    hours: int = 24
    post_click: float = 3600.0
    attribution: float = 604_800.0

    def __post_init__(self) -> None:
        least = f"at least post_click = {self.post_click}, finite"
        check_rules(
            self,
            hours=(self.hours >= 1, "at least 1"),
            post_click=(0 < self.post_click < np.inf, "above 0, finite"),
            attribution=(self.post_click <= self.attribution < np.inf, least),
        )

    def recent(self, as_of: float, hours: int | None = None) -> tuple[float, float]:
        """The newest clicks whose post-click window is over, of these hours or so many: [first,
        behind)."""
        return self._before(as_of - self.post_click, hours)

    def mature(self, as_of: float, hours: int | None = None) -> tuple[float, float]:
        """The newest clicks whose attribution window is over: [first, behind)."""
        return self._before(as_of - self.attribution, hours)

    def labelled_at_once(self, as_of: float, hours: int) -> list[tuple[float, float]]:
        """The newest clicks of so many hours, oldest first: a window of them, and before it, since
        more are never in memory at once, again a window or less, each with a correction for drift
        of its own."""
        behind, edges = as_of - self.post_click, [*range(0, hours, self.hours), hours]
        return [*pairwise(behind - edge * SECONDS_PER_HOUR for edge in reversed(edges))]

    @property
    def longest(self) -> float:
        """Seconds of clicks before a refit that these windows reach back, at most."""
        return self.attribution + self.hours * SECONDS_PER_HOUR

    def _before(self, behind: float, hours: int | None = None) -> tuple[float, float]:
        return behind - (hours or self.hours) * SECONDS_PER_HOUR, behind


@dataclass(frozen=True, slots=True, eq=False)
class ClickStream:
    """n clicks in order of time, and what became of them in the end.

    clicks : sorted by `clicked_at`.
    delay : (n,) seconds from each click to its first conversion, at least 0; nan where none came.

    Raises ValueError when the lengths differ, the clicks are not in order, or a delay is negative.

    >>> from evaluation import ClickPlatform
    >>> stream = ClickPlatform(campaigns=2, clicks_per_hour=1_000, cvr=0.1, seed=1).hour(0).stream
    >>> bool(stream.outcomes(3600.0).sum() < stream.outcomes(86400.0).sum())
    True
    """

    clicks: Clicks
    delay: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", np.asarray(self.delay, np.float64))
        check_equal_lengths(clicked_at=self.clicks.clicked_at, delay=self.delay)
        early = np.flatnonzero(np.diff(self.clicks.clicked_at) < 0)
        if len(early):
            raise ValueError(f"clicks must be in order of time: number {early[0] + 1} is too early")
        wrong = np.flatnonzero((self.delay < 0) | np.isinf(self.delay))
        if len(wrong):
            first = wrong[0]
            raise ValueError(
                f"delay[{first}] = {self.delay[first]}: must be at least 0, or nan where none came"
            )

    def __len__(self) -> int:
        return len(self.clicks)

    @classmethod
    def concatenate(cls, parts: Sequence["ClickStream"]) -> Self:
        """The parts one after the other; each begins where the one before it ended."""
        delays = np.concatenate([np.empty(0), *(part.delay for part in parts)])
        return cls(Clicks.concatenate([part.clicks for part in parts]), delays)

    def select(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "ClickStream":
        """The clicks that an ascending index array, a mask of shape (n,) or a slice chooses."""
        return ClickStream(self.clicks.select(chosen), self.delay[chosen])

    def between(self, first: float, behind: float) -> slice:
        """Where the clicks with first <= clicked_at < behind stand."""
        start, end = np.searchsorted(self.clicks.clicked_at, (first, behind))
        return slice(int(start), int(end))

    def outcomes(self, window: float) -> Floats:
        """1 for a click that converted less than `window` seconds after it, else 0; (n,)."""
        return np.asarray(self.delay < window, np.float64)

    def attribution(self, *, window: float, as_of: float) -> Attribution:
        """What `pccem.attribute` knows of the clicks at the time `as_of`, epoch seconds."""
        converting = np.flatnonzero(~np.isnan(self.delay))
        converted_at = self.clicks.clicked_at[converting] + self.delay[converting]
        return attribute(
            np.arange(len(self)),
            self.clicks.clicked_at,
            converting,
            converted_at,
            window=window,
            as_of=as_of,
        )


SECONDS_PER_DAY = 86_400.0

LabelSource = Literal["model", "delays", "none"]
"""What labels come from: a post-click model; before the first one, the score itself, corrected by
the delay distribution; before that, nothing: the map in force stays."""


def label_rule(
    has_model: bool, delays: DelayDistribution | None, wanted: LabelRules
) -> tuple[LabelSource, LabelRules]:
    """What labels come from with what there is, and the rules that this leaves of those wanted.

    Without a model the score is corrected by the conversions seen so far, whatever is wanted.
    Without a delay distribution nothing says how many of them to expect by now: the model's
    probabilities become labels as they are ("paper").
    """
    if not has_model:
        return "none" if delays is None else "delays", LabelRules("posterior", True)
    if delays is None:
        return "model", LabelRules("paper", False, wanted.post_click)
    return "model", wanted


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """What is known from one midnight (UTC) to the next.

    `scores` are the model's, for the clicks at `scored`; empty without a model.
    """

    training: Training
    model: PostClickModel | None
    delays: DelayDistribution | None
    scored: slice
    scores: Floats

    @property
    def source(self) -> LabelSource:
        """What labels come from on this day."""
        return label_rule(self.model is not None, self.delays, LabelRules())[0]


@dataclass(slots=True)
class PostClickHistory:
    """Days of a stream; each is worked out when it is first asked for.

    Every midnight a model is trained on the mature clicks of the `rules.days` before. A refused one
    leaves that of the day before in force, if that day has been asked for. Whatever the rules say
    of it, the post-click window of model and labels is that of `windows`. The delay distribution is
    fitted on all clicks of that time whose post-click window is over, however young.

    stream : the clicks.
    windows : of the target.
    rules : of the training.
    sight : what a model sees of the clicks; all there is unless given.
    hours : of clicks that a refit learns from; the window unless given.
    """

    stream: ClickStream
    windows: ClickWindows
    rules: TrainingRules
    sight: Callable[[Clicks], Clicks] = lambda clicks: clicks
    hours: int | None = None
    _days: dict[int, Day] = field(default_factory=dict)

    def day_of(self, moment: float) -> Day:
        """The day in which a moment lies, epoch seconds."""
        number = int(moment // SECONDS_PER_DAY)
        if number not in self._days:
            self._days[number] = self._work_out(number)
        return self._days[number]

    def days(self) -> dict[int, Day]:
        """The days worked out so far, by their number since 1970."""
        return dict(self._days)

    def labels(self, as_of: float, rules: LabelRules) -> tuple[slice, Floats] | None:
        """The clicks that a refit learns from, and what each counts; None with the source none."""
        windows, day, hours = self.windows, self.day_of(as_of), self.hours or self.windows.hours
        wanted = replace(rules, post_click=windows.post_click)
        source, used = label_rule(day.model is not None, day.delays, wanted)
        if source == "none":
            return None
        spans = windows.labelled_at_once(as_of, hours)
        labels = [self._labels(day, self.stream.between(*span), as_of, used) for span in spans]
        return self.stream.between(*windows.recent(as_of, hours)), np.concatenate(labels)

    def _labels(self, day: Day, chosen: slice, as_of: float, rules: LabelRules) -> Floats:
        recent = self.stream.select(chosen)
        known = recent.attribution(window=self.windows.attribution, as_of=as_of)
        clicks, start = recent.clicks, chosen.start - day.scored.start
        p = clicks.scores if day.model is None else day.scores[start : start + len(recent)]
        known_of = clicks.rows, clicks.campaigns, rules, clicks.clicked_at
        return label(p, known, day.delays, *known_of)

    def _work_out(self, number: int) -> Day:
        midnight = number * SECONDS_PER_DAY
        reach = self.windows.attribution + self.rules.days * SECONDS_PER_DAY
        # A service knows a click, and what came of it, once its post-click window is over.
        closed = midnight - self.windows.post_click
        past = self.stream.select(self.stream.between(midnight - reach, closed))
        known = past.attribution(window=self.windows.attribution, as_of=midnight)
        before = self._days.get(number - 1)
        in_force = before.model if before else None
        rules = replace(self.rules, post_click=self.windows.post_click)
        training = train(
            self.sight(past.clicks), known, as_of=midnight, rules=rules, in_force=in_force
        )
        delays = DelayDistribution.fit(
            known.delay,
            known.age,
            past.clicks.rows,
            past.clicks.campaigns,
            window=self.windows.attribution,
            as_of=midnight,
        )
        model = training.model or in_force
        if delays is not None:
            delays = replace(delays, cohorts=self._cohorts(model, past, known))
        return Day(training, model, delays, *self._scored(model, midnight))

    def _cohorts(
        self, model: PostClickModel | None, past: ClickStream, known: Attribution
    ) -> Cohorts:
        """What the model in force, or else the scores, expected of the clicks not yet mature; day
        by day, as a service reads them."""
        young = np.flatnonzero(~known.mature)
        days = np.floor((known.window - known.age[young]) / SECONDS_PER_DAY)
        parts = [self._of_day(model, past, known, young[days == day]) for day in np.unique(days)]
        return Cohorts.concatenate(parts or [self._of_day(model, past, known, young)])

    def _of_day(
        self, model: PostClickModel | None, past: ClickStream, known: Attribution, rows: Integers
    ) -> Cohorts:
        clicks = self.sight(past.clicks.select(rows))
        return Cohorts.of(
            clicks.scores if model is None else self._score(model, clicks),
            clicks.clicked_at,
            known.age[rows],
            known.delay[rows],
            window=known.window,
            post_click=0.0 if model is None else self.windows.post_click,
        )

    def _score(self, model: PostClickModel, clicks: Clicks) -> Floats:
        return model.score(clicks.model_features(), num_threads=self.rules.num_threads)

    def _scored(self, model: PostClickModel | None, midnight: float) -> tuple[slice, Floats]:
        """The clicks that any refit of the day may learn from, with the model's scores."""
        first, _ = self.windows.recent(midnight, self.hours)
        _, behind = self.windows.recent(midnight + SECONDS_PER_DAY)
        chosen = self.stream.between(first, behind)
        if model is None:
            return chosen, np.empty(0)
        clicks = self.sight(self.stream.clicks.select(chosen))
        return chosen, self._score(model, clicks)
