"""The post-click models and delay distributions of a stream, day by day, as a service has them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from calibrators.samples import Floats
from evaluation.click_stream import ClickStream
from evaluation.click_windows import ClickWindows
from pccem import (
    Clicks,
    DelayDistribution,
    LabelRules,
    PostClickModel,
    Training,
    TrainingRules,
    label,
    train,
)

SECONDS_PER_DAY = 86_400.0

LabelSource = Literal["model", "delays", "none"]
"""What labels come from: a post-click model; before the first one, the score itself, corrected by
the delay distribution; before that, nothing: the map in force stays."""


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
        if self.model is not None:
            return "model"
        return "none" if self.delays is None else "delays"


@dataclass(slots=True)
class PostClickHistory:
    """Days of a stream; each is worked out when it is first asked for.

    Every midnight a model is trained on the mature clicks of the `rules.days` before. A refused one
    leaves that of the day before in force, if that day has been asked for. Whatever the rules say
    of it, the post-click window of model and labels is that of `windows`. The delay distribution is
    fitted on all clicks of that time whose post-click window is over, however young.

    Parameters
    ----------
    stream : the clicks.
    windows : of the target.
    rules : of the training.
    sight : what a model sees of the clicks; all there is unless given.
    """

    stream: ClickStream
    windows: ClickWindows
    rules: TrainingRules
    sight: Callable[[Clicks], Clicks] = lambda clicks: clicks
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
        day, chosen = self.day_of(as_of), self.stream.between(*self.windows.recent(as_of))
        if day.source == "none":
            return None
        recent = self.stream.select(chosen)
        known = recent.attribution(window=self.windows.attribution, as_of=as_of)
        campaigns, rows = recent.clicks.campaigns, recent.clicks.rows
        if day.model is None:
            p, rules = recent.clicks.scores, LabelRules("posterior", drift_correction=True)
        else:
            start = chosen.start - day.scored.start
            p = day.scores[start : start + len(recent)]
            rules = replace(rules, post_click=self.windows.post_click)
        return chosen, label(p, known, day.delays, rows, campaigns, rules)

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
        )
        model = training.model or in_force
        return Day(training, model, delays, *self._scored(model, midnight))

    def _scored(self, model: PostClickModel | None, midnight: float) -> tuple[slice, Floats]:
        """The clicks that any refit of the day may learn from, with the model's scores."""
        first, _ = self.windows.recent(midnight)
        _, behind = self.windows.recent(midnight + SECONDS_PER_DAY)
        chosen = self.stream.between(first, behind)
        if model is None:
            return chosen, np.empty(0)
        clicks = self.sight(self.stream.clicks.select(chosen))
        return chosen, model.score(clicks.model_features(), num_threads=self.rules.num_threads)
