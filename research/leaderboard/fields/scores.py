"""What a method leaves to the truth, and how far each value's sum is off: of one world."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypedDict

import numpy as np

from calibrators.samples import Floats, sum_at
from evaluation.fields.field_errors import mean_relative_error
from evaluation.metrics.calibration import sample_losses
from research.leaderboard import REGIMES
from research.leaderboard.fields.method import FieldMethod, Shape
from research.leaderboard.fields.methods import METHODS
from research.leaderboard.fields.platform import (
    FIELD_REGIMES,
    FIRST_SCORED,
    SCORED_HOURS,
    FieldHour,
    FieldPlatform,
)
from research.leaderboard.method import MethodUnavailable
from research.leaderboard.tasks import cpu_seconds

TRUTH: Final = "truth"
"""The row of the true probabilities: its Field-RCE is the noise floor."""

NEW_CLICKS: Final = 100
"""A campaign that was born in the scored hours is new up to so many clicks."""


class Summary(TypedDict):
    """The figures of a method in a world, of one seed."""

    excess: float
    new_excess: float
    new_impressions: int
    field_rce: dict[str, float]
    cpu: float


def world(name: str, seed: int) -> FieldPlatform:
    """A world's platform: the campaigns and scores of the regime "mixed", and the fields."""
    return FieldPlatform(REGIMES["mixed"].platform(seed), FIELD_REGIMES[name], seed)


@dataclass(slots=True)
class Scores:
    """Sums over the scored hours of one method.

    excess, impressions : divergence from the truth, summed, and of how many impressions.
    new_excess, new_impressions : the same of campaigns that are new.
    sums : (3, v) impressions, predicted and observed positives of each value, by field.
    seconds : of CPU, in the scored hours, those of its child processes too.
    """

    excess: float = 0.0
    impressions: int = 0
    new_excess: float = 0.0
    new_impressions: int = 0
    sums: dict[str, Floats] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, hour: FieldHour, p: Floats, new: Floats, sizes: Mapping[str, int]) -> None:
        """Take in the impressions of an hour, predicted p, (n,); 1 where the campaign is new."""
        ones = np.ones(len(p))
        losses = sample_losses(p, hour.truth, ones) - sample_losses(hour.truth, hour.truth, ones)
        self.excess += float(losses.sum())
        self.impressions += len(p)
        self.new_excess += float(losses @ new)
        self.new_impressions += int(new.sum())
        for name, size in sizes.items():
            columns = (ones, p, hour.events.outcomes)
            sums = np.stack([sum_at(hour.fields[name], column, size) for column in columns])
            self.sums[name] = self.sums.get(name, 0.0) + sums

    def summary(self) -> Summary:
        """Mean excess x 10^6, of new campaigns too where there are any, Field-RCE, CPU seconds."""
        return {
            "excess": 1e6 * self.excess / max(self.impressions, 1),
            "new_excess": 1e6 * self.new_excess / max(self.new_impressions, 1),
            "new_impressions": self.new_impressions,
            "field_rce": {
                name: mean_relative_error(np.abs(predicted - observed), observed, impressions)
                for name, (impressions, predicted, observed) in self.sums.items()
            },
            "cpu": self.seconds,
        }


@dataclass(slots=True)
class Run:
    """A run of methods on a world: what each has, and why those that failed did.

    Parameters: the world's platform; the methods' names.
    """

    platform: FieldPlatform
    methods: Sequence[str]
    scores: dict[str, Scores] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    _made: dict[str, FieldMethod] = field(default_factory=dict)
    _clicks: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = Shape(self.platform.names, self._sizes)
        self._made = {who: METHODS[who](shape) for who in self.methods}
        self.scores = {who: Scores() for who in (TRUTH, *self._made)}
        self._clicks = np.zeros(len(self.platform.names))

    def hours(self, first: int = FIRST_SCORED, scored: int = SCORED_HOURS) -> Iterator[int]:
        """Play hour after hour and yield its number; the hours [first, first + scored) count."""
        for number in range(first + scored):
            hour = self.platform.hour(number)
            if number == first:
                # What some do in the hours before, others begin with here.
                for scores in self.scores.values():
                    scores.seconds = 0.0
            if number >= first:
                self._score(hour)
            for who in self._there():
                with self._timed(who):
                    self._made[who].observe(hour)
            self._clicks += sum_at(hour.campaigns, hour.events.outcomes, len(self._clicks))
            yield number

    @property
    def _sizes(self) -> dict[str, int]:
        return {each.name: each.values for each in self.platform.regime.fields}

    def _there(self) -> list[str]:
        return [who for who in self._made if who not in self.unavailable]

    def _score(self, hour: FieldHour) -> None:
        rows, blind = hour.campaigns, hour.blind()
        new = (self.platform.births[rows] > 0) & (self._clicks[rows] < NEW_CLICKS)
        predicted = {TRUTH: hour.truth}
        for who in self._there():
            with self._timed(who):
                predicted[who] = self._made[who].predict(blind)
        for who, p in predicted.items():
            self.scores[who].add(hour, p, new.astype(np.float64), self._sizes)

    @contextmanager
    def _timed(self, who: str) -> Iterator[None]:
        before = cpu_seconds()
        try:
            yield
        except MethodUnavailable as reason:
            self.unavailable[who] = str(reason)
            del self.scores[who]
        else:
            self.scores[who].seconds += cpu_seconds() - before
