"""ConversionPace: whether more conversions come than was expected, or the same ones sooner.

Both look alike on clicks of one age. Where conversions only come faster, those within the
post-click window grow most, and few are left to come later. So cohorts of clicks of the whole
attribution window are held against what was expected of them at each age.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from pccem.arrays import Floats, Integers
from pccem.calendar import DAY, Calendar

RATES: Final[Floats] = np.exp(np.arange(-40, 41) * 0.0625)
"""Conversions over those expected, from 1/12 to 12."""
PACES: Final[Floats] = np.exp(np.arange(-8, 9) * 0.2)
"""How many times faster than usual they come, from 1/5 to 5."""

_COLUMNS: Final = ("numbers", "clicked_at", "spread", "age", "expected", "seen")
_COHORTS: Final = 28
_NARROWEST: Final = 6 * 3600.0
_AGES: Final = 13
_MOST_COHORTS: Final = 4096
# Relative error of an expectation for reasons other than rate and pace, as that of the curve.
_MISFIT: Final = 0.05
# Share of the conversions that keep their usual pace whatever the others do.
_STEADY: Final = 0.02
# Rates and paces by day: standard deviation in logs; chance of a jump; its size, in logs.
_RATE_DRIFT, _RATE_JUMPS = 0.04, 0.02
_PACE_DRIFT, _PACE_JUMPS = 0.05, 0.06
_JUMP: Final = 0.7
_FIRST_RATE, _FIRST_PACE = 0.3, 0.5
# Where a cohort's clicks are looked at, as shares of their spread, and how much each counts: by
# Gauss and Legendre, exact up to the ninth degree. The conversions of the youngest begin steeply.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
# By how much, in logs, changes of pace must explain delays better than one pace for all.
_SURE: Final = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class DelayCurve:
    """A target's delays, at any pace, for a click of any moment.

    knots, shares : (k,) of a `DelayDistribution`.
    calendar : None where every hour is as good as another.
    """

    knots: Floats
    shares: Floats
    calendar: Calendar | None

    def at_paces(self, paces: Floats) -> Floats:
        """The shares at the knots, (p, k), if conversions come so many times faster."""
        window = self.knots[-1]
        ages = np.minimum(paces[:, None] * self.knots, window)
        shares = np.interp(ages, self.knots, self.shares)
        return scaled(shares)

    def by(self, shares: Floats, clicked_at: float, ages: Floats) -> Floats:
        """Share of the conversions of clicks of one moment that come by these ages, (p, a).

        shares : (p, k) at the knots.
        clicked_at, ages : epoch seconds; (a,) seconds, by 0 none has come.
        """
        knots = self.knots
        if self.calendar is not None:
            # What the calendar has between two knots does not come evenly.
            knots = np.union1d(knots, np.clip(ages, 0.0, knots[-1]))
            shares = _between(self.knots, shares, knots)
            steps = np.diff(shares, axis=1) * self.calendar.means(clicked_at, knots)
            shares = scaled(np.column_stack((shares[:, :1], steps)).cumsum(axis=1))
        return np.asarray(np.where(ages > 0.0, _between(knots, shares, ages), 0.0).clip(0.0, 1.0))


def _between(knots: Floats, shares: Floats, ages: Floats) -> Floats:
    """Shares, (p, k), at ages between the knots, (p, a)."""
    left = np.clip(np.searchsorted(knots, ages, side="right") - 1, 0, len(knots) - 2)
    along = np.clip((ages - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
    return np.asarray(shares[:, left] + (shares[:, left + 1] - shares[:, left]) * along)


def scaled(shares: Floats) -> Floats:
    """Shares, (p, k), of which the last is 1; where nothing comes within the window at a pace, all
    comes at its end."""
    ends = shares[..., -1:]
    found = np.divide(shares, ends, out=np.zeros_like(shares), where=ends > 0.0)
    found[..., -1:] = 1.0
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Cohorts:
    """Clicks by time: the conversions expected of each, and those seen, by age.

    c cohorts in order of time.

    window, post_click : seconds.
    numbers : (c,) time of the clicks over `width`, whole.
    clicked_at : (c,) mean time of the clicks, epoch seconds.
    spread : (c,) half the time that their clicks span.
    age : (c,) seconds from their mean time to the moment of knowing.
    expected : (c,) sum of the clicks' probabilities of a conversion after the post-click window.
    seen : (c, 13) conversions, those of the post-click window in front.
    """

    window: float
    post_click: float
    numbers: Integers
    clicked_at: Floats
    spread: Floats
    age: Floats
    expected: Floats
    seen: Floats

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(
        cls,
        p: Floats,
        clicked_at: Floats,
        age: Floats,
        delay: Floats,
        *,
        window: float,
        post_click: float,
    ) -> Self:
        """Those of n clicks: probability of a conversion after the post-click window (of those that
        converted within it, anything), epoch seconds, age in seconds, seconds to the conversion
        seen or nan."""
        numbers, rows = np.unique(
            np.floor(clicked_at / _width(window)).astype(np.int64), return_inverse=True
        )
        n = len(numbers)
        counts = np.bincount(rows, minlength=n)
        mean, ages = (np.bincount(rows, v, n) / counts for v in (clicked_at, age))
        first, last = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(first, rows, clicked_at)
        np.maximum.at(last, rows, clicked_at)
        came = np.flatnonzero(~np.isnan(delay))
        bins = np.searchsorted(_edges(window, post_click), delay[came], side="right") - 1
        cells = rows[came] * _AGES + np.clip(bins, 0, _AGES - 1)
        seen = np.bincount(cells, minlength=n * _AGES).reshape(n, _AGES).astype(np.float64)
        open_ = ~(delay < post_click)
        expected = np.bincount(rows[open_], p[open_], n).astype(np.float64)
        half = 0.5 * (last - first)
        # As they are stored, so that a training gives the same whether it was stored or not.
        means = (mean.round(1), half.round(1), ages.round(1), expected.round(3))
        return cls(window, post_click, numbers, *means, seen)

    @classmethod
    def concatenate(cls, parts: list["Cohorts"]) -> Self:
        """All of them, in order of time; of one target, at least one."""
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS]
        order = np.argsort(columns[1], kind="stable")
        return cls(parts[0].window, parts[0].post_click, *(column[order] for column in columns))

    def before(self, number: int) -> "Cohorts":
        """Those of an earlier time."""
        columns = (getattr(self, name)[self.numbers < number] for name in _COLUMNS)
        return Cohorts(self.window, self.post_click, *columns)

    def places(self, clicked_at: Floats) -> NDArray[np.int32]:
        """The cohort of each click, (n,), among these; the clicks are those that they are of."""
        numbers = np.floor(clicked_at / _width(self.window)).astype(np.int64)
        places = np.clip(np.searchsorted(self.numbers, numbers), 0, max(len(self) - 1, 0))
        return places.astype(np.int32)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; `from_dict` gives the same back."""
        return {
            "window": self.window,
            "post_click": self.post_click,
            **{name: getattr(self, name).tolist() for name in _COLUMNS[:-1]},
            "within": self.seen[:, 0].tolist(),
            "seen": self.seen[:, 1:].tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The cohorts that `to_dict` wrote; ValueError on anything else."""
        try:
            numbers = np.array(data["numbers"], np.int64)
            names = ("clicked_at", "spread", "age", "expected", "within", "seen")
            columns = [np.array(data[name], np.float64) for name in names]
            if not len(numbers):
                columns[-1] = columns[-1].reshape(0, _AGES - 1)
            window, post_click = float(data["window"]), float(data["post_click"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError("delays: cohorts must be tables of numbers") from None
        shapes = [(len(numbers),)] * 5 + [(len(numbers), _AGES - 1)]
        if (
            numbers.ndim != 1
            or len(numbers) > _MOST_COHORTS
            or shapes != [column.shape for column in columns]
        ):
            raise ValueError("delays: cohorts must have one row each")
        if not 0.0 <= post_click < window < np.inf:
            raise ValueError(f"delays: cohorts: window = {window}, post_click = {post_click}")
        if not all((np.isfinite(column) & (column >= 0.0)).all() for column in columns):
            raise ValueError("delays: cohorts must be finite numbers from 0 up")
        columns[-2:] = [np.column_stack(columns[-2:])]
        return cls(window, post_click, numbers, *columns)


def _width(window: float) -> float:
    """Seconds of clicks of one cohort, whole hours."""
    return float(max(np.ceil(window / _COHORTS / 3600.0) * 3600.0, _NARROWEST))


def _edges(window: float, post_click: float) -> Floats:
    """Ages from 0 to the end of the attribution window, at equal ratios behind the post-click
    window, (14,)."""
    first = min(max(2.0 * post_click, 7200.0), 0.5 * (post_click + window))
    return np.concatenate(([0.0, post_click], np.geomspace(first, window, _AGES - 1)))


class ConversionPace:
    """What is believed of each of c cohorts.

    rates : (c,) later conversions over those expected of it, the geometric mean.
    weights : (c, p) of each of `PACES`, by the conversions that come at it; rows add up to 1.
    """

    def __init__(self, cohorts: Cohorts, curve: DelayCurve, newest: int) -> None:
        """Of the newest so many cohorts, with what all of them say.

        Rate and pace are a hidden Markov chain over the cohorts. Both drift, and seldom jump. A
        cohort's conversions at each age are negative binomial about rate x expected x share of the
        age at the pace, that of the post-click window among them: where all come sooner, more come
        within it, and fewer are left. The answer is exact on a grid, forward and backward.

        Source: Rabiner (1989), Proceedings of the IEEE 77, for the recursions.
        """
        due, later = _due(cohorts, curve)
        evidence = _evidence(cohorts, due * cohorts.expected[:, None, None])
        days = np.diff(cohorts.numbers) * _width(cohorts.window) / DAY
        moves = [_moves(each) for each in days.tolist()]
        beliefs, _ = _smoothed(_first_belief(), evidence, moves, newest)
        self.rates, self.weights = _means(beliefs, later[-newest:])


def changes_of_pace(
    strata: Sequence[tuple[Cohorts, DelayCurve]], clicked_at: Floats
) -> Floats | None:
    """By how much faster than usual conversions of clicks of n moments come: the logarithm of their
    cohort's pace, (n,). None where one pace for all explains when they have come about as well, and
    where a campaign contradicts.

    The paces are a hidden Markov chain as in `ConversionPace`. Each campaign is held against its
    own delays: where one with other delays grows, all of them together seem to change. Nobody need
    have expected its conversions: when they came tells, not how many.

    strata : of each campaign cohorts of its conversions alone, and its curve.
    clicked_at : (n,) epoch seconds.
    """
    if not strata:
        return None
    numbers, each = _by_cohort(strata)
    evidence, usual = each.sum(axis=0)[:, None, :], len(PACES) // 2
    width = _width(strata[0][0].window)
    moves = [(np.ones((1, 1)), _moves(days)[1]) for days in np.diff(numbers) * width / DAY]
    first = _first_belief().sum(axis=0, keepdims=True)
    beliefs, log_likelihood = _smoothed(first, evidence, moves, len(numbers))
    likeliest = each[:, np.arange(len(numbers)), beliefs[:, 0].argmax(axis=1)]
    against = (each[:, :, usual] - likeliest).sum(axis=1).max()
    if log_likelihood - evidence[:, 0, usual].sum() < _SURE or against > _SURE:
        return None
    logs: Floats = beliefs[:, 0] @ np.log(PACES)
    return logs[np.clip(np.searchsorted(numbers, clicked_at // width), 0, len(numbers) - 1)]


def _by_cohort(strata: Sequence[tuple[Cohorts, DelayCurve]]) -> tuple[Integers, Floats]:
    """The numbers of all cohorts, (c,), and how likely each pace makes the moments at which those
    of each campaign have converted, in logs, (s, c, p)."""
    numbers = np.unique(np.concatenate([cohorts.numbers for cohorts, _ in strata]))
    found = np.zeros((len(strata), len(numbers), len(PACES)))
    for place, (cohorts, curve) in enumerate(strata):
        shares = np.maximum(_due(cohorts, curve)[0], 1e-9)
        shares /= shares.sum(axis=2, keepdims=True)
        # As if of so few that chance alone differed as much as they do with the error of the curve.
        seen = cohorts.seen / (1.0 + _MISFIT**2 * cohorts.seen.mean(axis=1, keepdims=True))
        at = np.searchsorted(numbers, cohorts.numbers)
        found[place, at] = np.einsum("ca,cpa->cp", seen, np.log(shares))
    return numbers, found


def _smoothed(
    first: Floats, evidence: Floats, moves: list[tuple[Floats, Floats]], newest: int
) -> tuple[Floats, float]:
    """What is believed of the newest so many of c cohorts, given all evidence, (c, r, p); and the
    logarithm of how likely that is."""
    belief, behind, likelihood = first, [], -float(np.log(first.sum()))
    for place, log_likelihood in enumerate(evidence):
        if place:
            rate, pace = moves[place - 1]
            belief = rate @ belief @ pace.T
        most = log_likelihood.max()
        belief = belief * np.exp(log_likelihood - most)
        likelihood += float(np.log(belief.sum()) + most)
        belief = belief / belief.sum()
        behind.append(belief)
    ahead, found = np.ones_like(belief), []
    for place in range(len(evidence) - 1, len(evidence) - 1 - newest, -1):
        found.append(behind[place] * ahead)
        if place:
            (rate, pace), come = moves[place - 1], evidence[place]
            ahead = ahead * np.exp(come - come.max())
            ahead = rate.T @ (ahead / ahead.sum()) @ pace
    beliefs = np.stack(found[::-1])
    return beliefs / beliefs.sum(axis=(1, 2), keepdims=True), likelihood


def _means(beliefs: Floats, later: Floats) -> tuple[Floats, Floats]:
    by_pace = np.einsum("crp,r->cp", beliefs, RATES)
    # Nearly the median: in a plain mean a jump up weighs more than a jump down.
    logs = np.einsum("crp,r->c", beliefs, np.log(RATES))
    logs += np.einsum("crp,cp->c", beliefs, np.log(later))
    return np.exp(logs), by_pace / by_pace.sum(axis=1, keepdims=True)


def _evidence(cohorts: Cohorts, due: Floats) -> Floats:
    """Log-likelihood of each cohort, (c, r, p), but for what does not depend on rate and pace."""
    due, seen = np.maximum(due, 1e-9), cohorts.seen
    shapes = _shapes(cohorts.expected, due[:, len(PACES) // 2, 0])
    found: Floats = np.einsum("ca,cpa->cp", seen, np.log(due))[:, None, :]
    found = found + (seen.sum(axis=1)[:, None] * np.log(RATES))[:, :, None]
    for age in range(_AGES):
        shape = shapes[:, age, None, None]
        means = np.log1p(RATES[None, :, None] * due[:, None, :, age] / shape)
        found -= (shape + seen[:, age, None, None]) * means
    return found


def _shapes(expected: Floats, within: Floats) -> Floats:
    """Of the negative binomials by age, (c, a), from the conversions expected after the post-click
    window and within it, (c,)."""
    shapes = np.full((len(expected), _AGES), _MISFIT**-2.0)
    # What is known is how many come later. If nearly all come within the window, an error of the
    # share that does is a far greater one of the few that do not.
    shapes[:, 0] *= (np.maximum(expected, 1e-9) / (expected + within + 1e-9)) ** 2
    return shapes


def _due(cohorts: Cohorts, curve: DelayCurve) -> tuple[Floats, Floats]:
    """Conversions by age at each pace, (c, p, a), for each that comes after the post-click window
    at the usual one; and how many come after it at each pace, over those, (c, p)."""
    usual, edges = curve.at_paces(np.ones(1)), _edges(cohorts.window, cohorts.post_click)
    shares = (1.0 - _STEADY) * curve.at_paces(PACES) + _STEADY * usual
    mixed = np.concatenate((shares, usual))
    due, rest = np.zeros((len(cohorts), len(PACES), _AGES)), np.zeros((len(cohorts), len(mixed)))
    for place in range(len(cohorts)):
        for point, weight in zip(_POINTS, 0.5 * _WEIGHTS, strict=True):
            moved = point * cohorts.spread[place]
            clicked, age = cohorts.clicked_at[place] + moved, cohorts.age[place] - moved
            ages = np.append(np.clip(edges, 0.0, max(age, 0.0)), cohorts.post_click)
            by = curve.by(mixed, clicked, ages)
            due[place] += weight * np.diff(by[:-1, :-1], axis=1)
            rest[place] += weight * (1.0 - by[:, -1])
    # Over those of all its clicks: a calendar may leave none to come to some of them.
    rest = np.maximum(rest, 1e-6)
    return due / rest[:, -1:, None], rest[:, :-1] / rest[:, -1:]


def _first_belief() -> Floats:
    rates = np.exp(-0.5 * (np.log(RATES) / _FIRST_RATE) ** 2)
    paces = np.exp(-0.5 * (np.log(PACES) / _FIRST_PACE) ** 2)
    return np.asarray(rates[:, None] * paces + 1e-4)


def _moves(days: float) -> tuple[Floats, Floats]:
    """Where a rate and a pace go from each of theirs in so many days, (r, r) and (p, p)."""
    return (
        _move(np.log(RATES), _RATE_DRIFT, _RATE_JUMPS, days),
        _move(np.log(PACES), _PACE_DRIFT, _PACE_JUMPS, days),
    )


def _move(logs: Floats, drift: float, jumps: float, days: float) -> Floats:
    n, step = len(logs), logs[1] - logs[0]
    apart = np.abs(logs[:, None] - logs)
    variance = drift**2 * days
    if variance > step**2:
        near = np.exp(-0.5 * apart**2 / variance)
    else:
        # A step to a neighbour with the chance that gives the variance, however small it is.
        side = 0.5 * variance / step**2
        near = np.eye(n) * (1.0 - 2.0 * side) + side * (np.eye(n, k=1) + np.eye(n, k=-1))
    far, chance = np.exp(-apart / _JUMP), -np.expm1(-jumps * days)
    return np.asarray((1.0 - chance) * near / near.sum(axis=0) + chance * far / far.sum(axis=0))
