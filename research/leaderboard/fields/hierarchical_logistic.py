"""A hierarchical logistic regression on rows: the textbook's answer to several fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import numpy as np
from scipy.special import expit

from calibrators.samples import Floats, Integers, sum_at
from research.leaderboard.fields.method import Rows, Shape, Window
from research.leaderboard.fields.platform import FieldHour

HOURS: Final = 48
"""Hours that it is fitted on: of 24, 36 and 48 the best on the tuning seeds."""

_SWEEPS, _MORE_SWEEPS = 15, 4
_MOST_PAIRS = 2_000
_LEAST_VARIANCE, _FIRST_VARIANCE = 1e-6, 0.02
_FIXED = np.inf


@dataclass(slots=True)
class Term:
    """Effects of one kind, (v,), drawn from a normal distribution around 0.

    Parameters: names of the columns whose codes choose the effect, and their sizes; sloped: the
    effect is that of a unit of log-odds of the score; variance, learnt unless it is infinite.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    sloped: bool = False
    variance: float = _FIRST_VARIANCE
    effects: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.effects = np.zeros(int(np.prod(self.sizes)))

    def places(self, codes: Mapping[str, Integers]) -> Integers | int:
        """Which effect each row has, (n,); 0 where there is but one."""
        place: Integers | int = 0
        for name, size in zip(self.columns, self.sizes, strict=True):
            place = place * size + codes[name]
        return place

    def step(self, gradient: Floats, curvature: Floats) -> Floats:
        """The Newton step of the penalised likelihood, (v,), taken; its derivatives (v,) each."""
        precision = 1.0 / self.variance
        moved = (gradient - precision * self.effects) / (curvature + precision + 1e-12)
        self.effects += moved
        return moved

    def learn_variance(self, curvature: Floats) -> None:
        """MacKay's update: squared effects over the number of effects that data determine."""
        if self.variance < _FIXED:
            determined = (curvature / (curvature + 1.0 / self.variance)).sum()
            fresh = float(self.effects @ self.effects / max(determined, 1e-12))
            self.variance = max(fresh, _LEAST_VARIANCE)


class HierarchicalLogistic:
    """log-odds = score's + a + b score + effects by campaign (level and slope), field and pair.

    Each kind of effects has a normal prior whose variance is learnt from the same rows (empirical
    Bayes: MacKay's fixed point on the Laplace approximation); the effects are the most probable
    ones, found by Newton steps for one kind after the other. Pairs of fields have effects where
    there are at most 2,000 of them. Refitted every hour on the past 48, from where it was.

    Sources: Gelman and Hill, Data Analysis Using Regression and Multilevel Models (2007), chapter
    14; MacKay, Bayesian Interpolation (1992).
    """

    def __init__(self, shape: Shape, hours: int = HOURS) -> None:
        self.terms = list(_terms(shape))
        self._window = Window(hours)
        self._middle = 0.0

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        self._window.add(hour)

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        self.fit(self._window.rows(), _MORE_SWEEPS if self._middle else _SWEEPS)
        return self.probabilities(Rows.of([hour]))

    def probabilities(self, rows: Rows) -> Floats:
        """What the terms give, (n,)."""
        score = rows.odds - self._middle
        found: Floats = expit(rows.odds + sum(_effect(term, rows, score) for term in self.terms))
        return found

    def fit(self, rows: Rows, sweeps: int) -> None:
        """Fit effects and variances, from where they are."""
        if not self._middle:
            self._middle = float(rows.odds.mean())
        score = rows.odds - self._middle
        places = [term.places(rows.codes) for term in self.terms]
        odds = rows.odds + sum(_effect(term, rows, score) for term in self.terms)
        for _ in range(sweeps):
            for term, place in zip(self.terms, places, strict=True):
                odds += _improved(term, place, score, rows.outcomes, expit(odds))


def _terms(shape: Shape) -> Iterator[Term]:
    yield Term((), (), variance=_FIXED)
    yield Term((), (), sloped=True, variance=_FIXED)
    campaigns = (len(shape.campaigns),)
    yield Term(("campaign",), campaigns)
    yield Term(("campaign",), campaigns, sloped=True)
    for name, size in shape.values.items():
        yield Term((name,), (size,))
    for (one, v), (two, w) in combinations(shape.values.items(), 2):
        if v * w <= _MOST_PAIRS:
            yield Term((one, two), (v, w))


def _effect(term: Term, rows: Rows, score: Floats) -> Floats:
    effects = term.effects[term.places(rows.codes)]
    return np.asarray(effects * score if term.sloped else effects)


def _improved(
    term: Term, place: Integers | int, score: Floats, outcomes: Floats, p: Floats
) -> Floats:
    """Take a step of a term; what each row's log-odds gain by it, (n,)."""
    errors, weights = outcomes - p, p * (1.0 - p)
    if term.sloped:
        errors, weights = errors * score, weights * score**2
    gradient, curvature = (_sums(place, values, len(term.effects)) for values in (errors, weights))
    moved = term.step(gradient, curvature)[place]
    term.learn_variance(curvature)
    return np.asarray(moved * score if term.sloped else moved)


def _sums(place: Integers | int, values: Floats, size: int) -> Floats:
    return np.array([values.sum()]) if isinstance(place, int) else sum_at(place, values, size)
