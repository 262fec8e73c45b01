"""The calendar in the delays: found where there is one, and only there."""

import numpy as np
import pytest

from pccem.arrays import Floats
from pccem.calendar import Calendar
from pccem.delays import DelayDistribution

DAY, WINDOW = 86_400.0, 7 * 86_400.0
AS_OF = 20_000 * DAY
SATURDAY = 2
"""Days after Thursday, as 1970 began."""


def conversions(saturdays: float, n: int = 20_000) -> tuple[Floats, Floats]:
    """Delays and ages of the conversions seen of three weeks of clicks."""
    random = np.random.default_rng(1)
    age = 3 * WINDOW * random.random(n)
    delay = random.lognormal(np.log(DAY), 1.8, n)
    delay = np.where(delay < WINDOW, delay, WINDOW * random.random(n))
    ahead = (SATURDAY * DAY - (AS_OF - age)) % WINDOW
    waits = (random.random(n) < saturdays) & (ahead < 6 * DAY)
    delay = np.where(waits, ahead + DAY * random.random(n), delay)
    seen = delay <= age
    return delay[seen], age[seen]


def fitted(saturdays: float) -> Calendar:
    delay, age = conversions(saturdays)
    return Calendar.fit(delay, age, np.ones(len(age)), AS_OF, WINDOW)


def test_saturdays_are_found():
    calendar = fitted(0.5)

    days = calendar.factors[1].reshape(7, 24).mean(axis=1)
    assert days.argmax() == SATURDAY
    assert days[SATURDAY] > 4 * np.delete(days, SATURDAY).max()
    # Of a click on Thursday the Saturday is the third day.
    means = calendar.means(20_006 * DAY, np.arange(8) * DAY)
    assert means.argmax() == SATURDAY
    assert Calendar.from_list(calendar.to_list()).factors == pytest.approx(calendar.factors)


def test_where_no_hour_differs_there_is_none():
    assert fitted(0.0).flat


def test_what_was_in_one_week_alone_is_none():
    """Since Tuesday conversions come three times faster, which moves them between days, once."""
    delay, age = conversions(0.0, n=100_000)
    delay = np.where(age < 5.5 * DAY, delay / 3.0, delay)

    assert Calendar.fit(delay, age, np.ones(len(age)), AS_OF, WINDOW).flat


@pytest.mark.parametrize("days", [7, 14, 30])
def test_every_hour_of_a_long_window_has_its_factor(days):
    """Conversions that would come in the morning mostly come in the afternoon."""
    random, n, window = np.random.default_rng(2), 100_000, days * DAY
    age = 4 * window * random.random(n)
    delay = window * random.random(n)
    morning = (AS_OF - age + delay) % DAY < DAY / 2
    seen = (delay <= age) & (~morning | (random.random(n) < 1 / 3))

    found = Calendar.fit(delay[seen], age[seen], np.ones(seen.sum()), AS_OF, window)

    hours = found.factors[1].reshape(7, 24).mean(axis=0)
    assert hours == pytest.approx(np.repeat([0.5, 1.5], 12), rel=0.15)


@pytest.mark.parametrize(
    "data", [[[1.0]], [[0.0] * 168] * 2, [["a"] * 168] * 2, 3, [[2e3] * 168] * 2]
)
def test_what_is_no_calendar_is_refused(data):
    with pytest.raises(ValueError, match="calendar: must be 2 rows of 168 factors"):
        Calendar.from_list(data)


@pytest.mark.parametrize("weekday", [None, 3], ids=["every night", "on Sunday"])
def test_batches_of_a_full_hour_have_come_by_then(weekday):
    """All conversions are reported at 02:00, of each night or of Sunday."""
    random, n = np.random.default_rng(3), 20_000
    clicked = np.sort(AS_OF - 3 * WINDOW * random.random(n))
    came = clicked if weekday is not None else clicked + random.exponential(DAY, n)
    period, first = (DAY, 7200.0) if weekday is None else (WINDOW, weekday * DAY + 7200.0)
    delay = np.ceil((came - first) / period) * period + first - clicked
    age = AS_OF - clicked
    seen = (delay <= age) & (delay < WINDOW)
    delay, age = delay[seen], age[seen]

    found = DelayDistribution.fit(
        delay, age, np.zeros(len(age), int), ["a"], window=WINDOW, as_of=AS_OF
    )

    assert found is not None
    batch = np.ceil((AS_OF - first) / period) * period + first
    for waited in (5.0, 12.0):
        clicked_at = batch - waited * 3600.0
        ages = batch - clicked_at + np.array([-3600.0, 0.0])
        before, then = found.curve().by(found.shares[:1], clicked_at, ages)[0]
        assert before < 0.02
        assert then > (0.97 if weekday is not None else 0.15)


@pytest.mark.parametrize(("share", "weekly"), [(0.87, True), (0.8, False)])
def test_a_day_that_has_all_but_a_few_late_conversions_makes_a_week(share, weekly):
    """After one Saturday on which four in five buy it has .86; half, after three, .81."""
    late = np.full((7, 24), (1.0 - share) / 6.0)
    late[SATURDAY] = share

    assert Calendar(np.stack((np.ones(168), late.ravel()))).weekly is weekly
