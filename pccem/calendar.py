"""The calendar in the delays: hours of the week at which more conversions come than at others."""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from pccem.arrays import Floats, Integers

HOUR: Final = 3600.0
DAY: Final = 86_400.0
WEEK: Final = 168
"""Hours of a week, counted from Thursday 00:00 UTC, as 1970 began."""

_STEPS: Final = (1, 2, 3, 4, 6, 8, 12, 24)
_MOST_AGES: Final = 256
_ROUNDS: Final = 12
_NO_EFFECT: Final = 1e6
_LEAST, _LARGEST = 1e-6, 1e3
# Share of the conversions that a round must move, or it is the last: where each click has one hour
# to convert in, nothing but chance tells how many come by the others, and rounds would follow it.
_SETTLED: Final = 1e-3
# The share of conversions on one day of the week that makes their reports weekly.
_ALL_BUT: Final = 0.85


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """How much likelier a conversion is at each hour of the week than at another.

    A conversion that comes at age u after a click at c has the density f(u) s(c + u), divided by
    what that adds up to over the attribution window: a calendar moves conversions, it makes none.

    factors : (2, 168) s, for ages within a day of the click and beyond; above 0.
    """

    factors: Floats

    def __post_init__(self) -> None:
        table = self.factors
        if table.shape != (2, WEEK) or not ((table > 0.0) & (table <= _LARGEST)).all():
            raise ValueError(f"calendar: must be 2 rows of {WEEK} factors in (0, {_LARGEST:g}]")

    @classmethod
    def fit(cls, delay: Floats, age: Floats, weights: Floats, as_of: float, window: float) -> Self:
        """The calendar behind the conversions seen by `as_of`, whatever their clicks' age.

        Conversions are counted by the hour of their click and the hours until they came. Given how
        many conversions of a click hour have been seen, those counts are in proportion to f s over
        the ages that the hour has had, so young clicks do not bend the answer. f and s are scaled
        in turn until both margins fit; a day of the week and an hour of the day have a factor each,
        shrunk to 1 by how much more they differ than chance explains.

        delay, age, weights : (n,) seconds to the conversion, of the click, and what each counts.
        as_of : moment of knowing, epoch seconds.
        window : attribution window in seconds.

        Source: Deming and Stephan (1940) for the scaling; Mack (1993), ASTIN Bulletin 23, for
        counts by origin and age; DerSimonian and Laird (1986) for the shrinkage.
        """
        counts = _Counts(delay, age, weights, as_of, window)
        days, hours = np.ones((2, 7)), np.ones((2, 24))
        shape: Floats = counts.table.sum(axis=0)
        before = np.zeros_like(counts.table)
        for _ in range(_ROUNDS):
            for effects, keys in ((days, counts.days), (hours, counts.hours)):
                expected = counts.expected(shape, _table(days, hours))
                shape = shape * _over(counts.table.sum(axis=0), expected.sum(axis=0))
                expected = counts.expected(shape, _table(days, hours))
                effects[:] = _shrunk(counts, expected, keys, effects)
            moved, before = np.abs(expected - before).sum(), expected
            if moved <= _SETTLED * counts.table.sum():
                break
        # What is counted in steps of several hours holds for each of them.
        hours = hours[:, np.arange(24) // counts.step * counts.step]
        return cls(np.clip(_table(days, hours), _LEAST, _LARGEST).round(6))

    @classmethod
    def from_list(cls, data: Any) -> Self:
        """What `to_list` wrote; ValueError on anything else."""
        try:
            return cls(np.array(data, np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"calendar: must be 2 rows of {WEEK} factors") from None

    def to_list(self) -> list[list[float]]:
        """Ready for JSON."""
        rows: list[list[float]] = self.factors.tolist()
        return rows

    @property
    def flat(self) -> bool:
        """Whether no hour differs from another."""
        return bool((self.factors == self.factors[:, :1]).all())

    @property
    def weekly(self) -> bool:
        """Whether hardly any late conversions come but on one day of the week."""
        days = self.factors[1].reshape(7, 24).sum(axis=1)
        return bool(days.max() > _ALL_BUT * days.sum())

    def means(self, clicked_at: float, knots: Floats) -> Floats:
        """Mean of s between each age and the next, (k - 1,), for a click at that moment.

        clicked_at : epoch seconds.
        knots : (k,) seconds since the click, ascending.
        """
        ends = (clicked_at + knots) / HOUR
        sums = np.concatenate((np.zeros((2, 1)), np.cumsum(self.factors, axis=1)), axis=1)
        late = (knots[:-1] >= DAY).astype(np.int64)
        totals = np.stack([_integral(row, ends) for row in sums])
        # Two ages may differ by less than an hour of today can tell.
        means = np.diff(totals, axis=1) / np.maximum(np.diff(ends), 1e-9)
        return np.asarray(np.take_along_axis(means, late[None], axis=0)[0])


def _integral(sums: Floats, hours: Floats) -> Floats:
    """Of a weekly factor from 1970 to these hours; `sums` are those of a week, (169,)."""
    weeks, rest = np.divmod(hours, WEEK)
    return np.asarray(weeks * sums[-1] + np.interp(rest, np.arange(WEEK + 1), sums))


def _table(days: Floats, hours: Floats) -> Floats:
    return np.asarray((days[:, :, None] * hours[:, None, :]).reshape(2, WEEK))


def _over(seen: Floats, expected: Floats) -> Floats:
    return np.divide(seen, expected, out=np.ones_like(seen), where=expected > 0.0)


class _Counts:
    """Conversions by step of the click and steps until they came, (c, d); what is not known yet is
    not `exposed`. `days` and `hours` number each cell's day of the week and hour of the day, those
    beyond a day after the click behind the others; `place` that among the factors, `week`
    which week it is of. A step has `step` hours."""

    def __init__(
        self, delay: Floats, age: Floats, weights: Floats, as_of: float, window: float
    ) -> None:
        self.step = next((s for s in _STEPS if window <= s * HOUR * _MOST_AGES), _STEPS[-1])
        step = self.step * HOUR
        clicked = np.floor((as_of - age) / step).astype(np.int64)
        # What comes at a full hour is known then: it is of the hour that ends.
        ends = np.ceil((as_of - age + delay) / step).astype(np.int64)
        waited = np.maximum(ends - 1 - clicked, 0)
        first, ages = int(clicked.min()), int(min(window // step + 2, 4 * _MOST_AGES))
        rows = max(int(as_of // step) - first, 1)
        inside = (clicked - first + waited < rows) & (waited < ages)
        cells = (clicked[inside] - first) * ages + waited[inside]
        table = np.bincount(cells, weights[inside], rows * ages).astype(np.float64)
        waits = np.arange(ages)
        at = np.arange(rows)[:, None] + waits
        late = (waits * step >= DAY).astype(np.int64)
        number, hour = np.divmod((first + at) * self.step, WEEK)
        self.table, self.exposed = table.reshape(rows, ages), at < rows
        self.days, self.hours = hour // 24 + 7 * late, hour % 24 + 24 * late
        self.place, self.week = hour + WEEK * late, number - number.min()

    def expected(self, shape: Floats, factors: Floats) -> Floats:
        """The counts, (c, d), that shape and factors give a row with as many conversions."""
        chances = shape * factors.ravel()[self.place] * self.exposed
        totals = chances.sum(axis=1)
        per_chance = _over(self.table.sum(axis=1), totals) * (totals > 0.0)
        return np.asarray(chances * per_chance[:, None])


def _shrunk(counts: _Counts, expected: Floats, keys: Integers, effects: Floats) -> Floats:
    """The effects anew: seen over expected without them, shrunk to their mean by the evidence."""
    weeks = int(counts.week.max()) + 1
    places, shape = counts.week + weeks * keys, (*effects.shape, weeks)
    seen, due = (
        np.bincount(places.ravel(), table.ravel(), weeks * effects.size).reshape(shape)
        for table in (counts.table, expected)
    )
    return np.stack([_shrunk_row(*row) for row in zip(seen, due, effects, strict=True)])


def _shrunk_row(by_week: Floats, due_by_week: Floats, effects: Floats) -> Floats:
    seen, due = by_week.sum(axis=1), due_by_week.sum(axis=1) / effects
    present = due > 0.0
    freedom = np.count_nonzero(present) - 1
    if freedom < 1:
        return np.ones_like(seen)
    level = seen.sum() / due.sum()
    level_due = level * due[present]
    chance = freedom + 3.0 * np.sqrt(2.0 * freedom)
    chance *= _dispersion(by_week[present], due_by_week[present])
    excess = ((seen[present] - level_due) ** 2 / level_due).sum() - chance
    spare = level_due.sum() - (level_due**2).sum() / level_due.sum()
    strength = spare / excess if excess * _NO_EFFECT > spare else _NO_EFFECT
    if strength >= _NO_EFFECT:
        return np.ones_like(seen)
    found = (seen + strength * level) / (due * level + strength * level)
    # Where all come in one hour the others have none, which no product of factors may reach.
    return np.asarray(np.clip(found, _LEAST, _LARGEST))


def _dispersion(seen: Floats, due: Floats) -> float:
    """How many times more the weeks, (k, w), differ in the effects, (k,), than chance explains, at
    least once: what is in one week alone, as where delays have changed, is no calendar."""
    fitted = due * _over(seen.sum(axis=1), due.sum(axis=1))[:, None]
    known = fitted > 0.0
    freedom = np.count_nonzero(known) - np.count_nonzero(known.any(axis=1))
    if not freedom:
        return 1.0
    squares = (seen[known] - fitted[known]) ** 2 / fitted[known]
    return float(max(squares.sum() / freedom, 1.0))
