"""Pace: conversions that come sooner are not taken for more, nor more for sooner."""

import dataclasses
from functools import cache, cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pccem import Attribution, Cohorts, DelayDistribution, LabelRules, attribute, label
from pccem.arrays import Floats
from pccem.pace import ConversionPace, DelayCurve, _due, _smoothed, changes_of_pace

HOUR, DAY, WINDOW = 3600.0, 86_400.0, 7 * 86_400.0
NOW = 20_000 * DAY
RULES = LabelRules("posterior", True, HOUR)


@dataclasses.dataclass
class Stream:
    """Four weeks of clicks of one campaign, all with the probability .05; since a turn conversions
    come faster by a factor, or there are more."""

    clicked: Floats
    delay: Floats
    p: Floats

    @classmethod
    def draw(cls, turn: float, pace: float = 1.0, more: float = 1.0, n: int = 300_000) -> "Stream":
        random = np.random.default_rng(3)
        clicked = NOW - 4 * WINDOW * random.random(n)
        turned = clicked >= NOW - turn
        delay = np.exp(random.uniform(np.log(0.1 * HOUR), np.log(WINDOW), n))
        delay = np.where(turned, delay / pace, delay)
        converts = random.random(n) < 0.05 * np.where(turned, more, 1.0)
        delay = np.where(converts & (delay < WINDOW), delay, np.nan)
        return cls(clicked, delay, np.full(n, 0.05 * np.log(168) / np.log(1680)))

    def known(self, chosen: Any) -> Attribution:
        ids = np.flatnonzero(chosen)
        converted = ids[~np.isnan(self.delay[ids])]
        at = (self.clicked + self.delay)[converted]
        return attribute(ids, self.clicked[ids], converted, at, window=WINDOW, as_of=NOW)

    @cached_property
    def delays(self) -> DelayDistribution:
        """As it was learnt before the turn, with the cohorts of today."""
        before = (self.clicked >= NOW - 4 * WINDOW) & (self.clicked < NOW - WINDOW)
        known, rows = self.known(before), np.zeros(np.count_nonzero(before), np.int32)
        found = DelayDistribution.fit(known.delay, known.age, rows, ["a"], window=WINDOW)
        assert found is not None
        return dataclasses.replace(found, cohorts=self.cohorts())

    def cohorts(self) -> Cohorts:
        young = (self.clicked >= NOW - WINDOW) & (self.clicked < NOW - HOUR)
        known = self.known(young)
        return Cohorts.of(
            self.p[young],
            self.clicked[young],
            known.age,
            known.delay,
            window=WINDOW,
            post_click=HOUR,
        )

    def ratio(self, *, told: bool) -> float:
        """Labels over what the clicks of the last day converted in the end."""
        recent = (self.clicked >= NOW - 25 * HOUR) & (self.clicked < NOW - HOUR)
        rows = np.zeros(np.count_nonzero(recent), np.int32)
        times = self.clicked[recent] if told else None
        known = self.known(recent)
        labels = label(self.p[recent], known, self.delays, rows, ["a"], RULES, times)
        return float(labels.sum() / np.count_nonzero(~np.isnan(self.delay[recent])))


def test_faster_is_not_taken_for_more():
    """Four days on, older clicks show that little is left to come."""
    stream = Stream.draw(4 * DAY, pace=4.0)

    assert stream.ratio(told=False) > 1.1
    assert stream.ratio(told=True) == pytest.approx(1.0, abs=0.08)


def test_more_is_not_taken_for_faster():
    assert Stream.draw(4 * DAY, more=2.2).ratio(told=True) == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize(("pace", "more"), [(3.0, 1.0), (4.0, 1.0), (1.0, 1.5)])
def test_a_day_on_the_post_click_window_tells_faster_from_more(pace, more):
    """Clicks of a day show a few hours of delays: what came within the window tells most."""
    stream = Stream.draw(DAY, pace=pace, more=more)

    assert stream.ratio(told=True) == pytest.approx(1.0, abs=0.06)


@settings(max_examples=10)
@given(st.floats(0.5, 4.0), st.floats(0.6, 2.0))
def test_any_rate_and_pace_are_told_after_days(pace, more):
    assert Stream.draw(4 * DAY, pace=pace, more=more).ratio(told=True) == pytest.approx(1, abs=0.1)


def test_where_nothing_changes_nothing_is_corrected():
    assert Stream.draw(0.0).ratio(told=True) == pytest.approx(1.0, abs=0.08)


def fitted(stream: Stream) -> DelayDistribution:
    """What is learnt at midnight from all clicks."""
    known, rows = stream.known(np.full(len(stream.p), True)), np.zeros(len(stream.p), np.int32)
    found = DelayDistribution.fit(known.delay, known.age, rows, ["a"], window=WINDOW, as_of=NOW)
    assert found is not None
    return found


def error(found: DelayDistribution) -> float:
    """Of the shares, the largest, at ages from half an hour to the window."""
    ages = np.geomspace(0.5 * HOUR, WINDOW, 50)
    true = np.log(ages / (0.1 * HOUR)) / np.log(1680)
    return float(np.abs(found.share(ages, np.zeros(50, np.int32), ["a"]) - true).max())


@pytest.mark.parametrize("pace", [0.4, 3.0])
def test_conversions_at_another_pace_do_not_bend_the_curve(pace):
    """That of mature clicks holds a week on, when a fifth of the conversions are of another."""
    stream = Stream.draw(6 * DAY, pace=pace)

    assert error(fitted(stream)) < 0.02


def test_changes_of_pace_are_told_by_when_conversions_come():
    stream, curve = Stream.draw(6 * DAY, pace=3.0), fitted(Stream.draw(0.0)).curve()
    seen = ~np.isnan(stream.delay) & (stream.clicked + stream.delay <= NOW)
    clicked, delay = stream.clicked[seen], stream.delay[seen]

    def told(chosen: Any) -> Floats | None:
        times = clicked[chosen]
        columns = (np.zeros(len(times)), times, NOW - times, delay[chosen])
        cohorts = Cohorts.of(*columns, window=WINDOW, post_click=0.0)
        return changes_of_pace([(cohorts, curve)], times)

    logs = told(slice(None))

    turned = clicked >= NOW - 6 * DAY
    assert logs[turned].mean() == pytest.approx(np.log(3.0), abs=0.15)
    assert logs[clicked < NOW - 7 * DAY].mean() == pytest.approx(0.0, abs=0.05)
    assert told(~turned) is None
    assert changes_of_pace([], clicked) is None


def test_a_campaign_of_other_delays_that_grows_is_no_change_of_pace():
    random, n = np.random.default_rng(4), 40_000
    rows = np.repeat(np.array([0, 1], np.int32), n)
    age = np.concatenate((4 * WINDOW * random.random(n), 9 * DAY * random.random(n)))
    delay = np.repeat([48.0, 3.0], n) * HOUR * random.lognormal(0.0, 1.0, 2 * n)
    delay[(delay >= WINDOW) | (delay > age)] = np.nan

    alone, both = (
        DelayDistribution.fit(delay, age, rows, ["a", "b"], window=WINDOW, as_of=as_of)
        for as_of in (None, NOW)
    )

    assert both.shares == pytest.approx(alone.shares)


def test_delays_at_the_end_of_a_short_window_are_labelled():
    """At a fifth of the pace nothing would come within it."""
    random, n, window = np.random.default_rng(5), 20_000, 2 * HOUR
    age = 14 * DAY * random.random(n)
    delay = np.where(random.random(n) < 0.5, window * (0.25 + 0.75 * random.random(n)), np.nan)
    delay[~(delay < np.minimum(age, window))] = np.nan
    rows, clicked = np.zeros(n, np.int32), NOW - age
    delays = DelayDistribution.fit(delay, age, rows, ["a"], window=window, as_of=NOW)
    converted = np.flatnonzero(~np.isnan(delay))
    at = (clicked + delay)[converted]
    known = attribute(np.arange(n), clicked, converted, at, window=window, as_of=NOW)

    labels = label(np.full(n, 0.5), known, delays, rows, ["a"], LabelRules(), clicked)

    assert labels.mean() == pytest.approx(0.5, abs=0.02)


@cache
def known_delays() -> DelayDistribution:
    return Stream.draw(0.0, n=50_000).delays


def test_a_pause_as_long_as_the_window_leaves_cohorts_of_nothing():
    none = np.zeros(0)
    cohorts = Cohorts.of(none, none, none, none, window=WINDOW, post_click=HOUR)
    delays = dataclasses.replace(known_delays(), cohorts=cohorts)

    back = DelayDistribution.from_dict(delays.to_dict()).cohorts

    assert back.seen.shape == cohorts.seen.shape == (0, 13)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_beliefs_are_those_of_all_ways_that_cohorts_can_go(seed, count):
    random = np.random.default_rng(seed)
    first, evidence = random.random((2, 3)), 3.0 * random.normal(size=(count, 2, 3))
    columns = [(random.random((2, 2)), random.random((3, 3))) for _ in range(count - 1)]
    moves = [(rate / rate.sum(axis=0), pace / pace.sum(axis=0)) for rate, pace in columns]

    beliefs, log_likelihood = _smoothed(first, evidence, moves, count)

    states = list(product(range(2), range(3)))
    expected, total = np.zeros((count, 2, 3)), 0.0
    for way in product(states, repeat=count):
        chance = (
            first[way[0]] / first.sum() * np.exp(sum(evidence[i][at] for i, at in enumerate(way)))
        )
        for (rate, pace), (was, now) in zip(moves, pairwise(way), strict=True):
            chance *= rate[now[0], was[0]] * pace[now[1], was[1]]
        total += chance
        for place, at in enumerate(way):
            expected[place][at] += chance
    assert beliefs == pytest.approx(expected / total)
    assert log_likelihood == pytest.approx(np.log(total))


@pytest.mark.parametrize("halfway", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("post_click", [0.25 * HOUR, HOUR])
def test_conversions_due_of_a_cohort_are_those_of_its_clicks_one_by_one(halfway, post_click):
    """Of the youngest, too, whose conversions have only begun to come."""
    spread, n = 3 * HOUR, 200
    moved = spread * (2 * np.arange(n) + 1 - n) / n
    knots = np.concatenate(([0.0], np.geomspace(60.0, WINDOW, 60)))
    shares = -np.expm1(-((knots / (halfway * WINDOW)) ** 0.6))
    curve = DelayCurve(knots, shares / shares[-1], None)

    def due(moments: Floats, spread: float) -> Floats:
        columns = NOW + moments, np.full(len(moments), spread), post_click + 3 * HOUR - moments
        empty = np.zeros((len(moments), 13))
        whole = np.arange(len(moments)), *columns, np.ones(len(moments)), empty
        return _due(Cohorts(WINDOW, post_click, *whole), curve)[0][..., 1:].sum(axis=-1)

    np.testing.assert_allclose(due(np.zeros(1), spread)[0], due(moved, 0.0).mean(axis=0), rtol=2e-3)


def test_cohorts_come_back_out_of_json():
    delays = known_delays()

    back = DelayDistribution.from_dict(delays.to_dict())

    assert back.to_dict() == delays.to_dict()
    assert back.cohorts.seen.sum() == delays.cohorts.seen.sum() > 0


def test_cohorts_of_an_earlier_version_are_left_out():
    """They do not know the conversions of the post-click window."""
    data: dict[str, Any] = known_delays().to_dict()
    del data["cohorts"]["within"]

    back = DelayDistribution.from_dict(data)

    assert back.cohorts is None
    assert back.shares.tolist() == data["shares"]


CLICKS = st.tuples(
    st.floats(0.0, 1.0), st.floats(0.0, WINDOW), st.none() | st.floats(0.0, 1.0, exclude_max=True)
)


@given(
    st.lists(CLICKS, min_size=1, max_size=30), st.sampled_from([0.0, HOUR, DAY]), st.floats(0, 1)
)
@example([(1.0, 2 * HOUR, 0.5)], HOUR, 1.0)
@example([(0.0, 2 * HOUR, 0.0)], 0.0, 0.0)
def test_any_cohorts_count_each_conversion_once_and_give_a_belief(clicks, post_click, within):
    """Whatever share of all comes within the window, all of them even; ages younger than it."""
    p, age = np.array([each[:2] for each in clicks]).T
    delay = np.array([np.nan if at is None else at for *_, at in clicks]) * age
    cohorts = Cohorts.of(p, NOW - age, age, delay, window=WINDOW, post_click=post_click)
    knots = np.array([0.0, HOUR, DAY, WINDOW])
    curve = DelayCurve(knots, np.array([0.1 * within, within, within, 1.0]), None)

    found = ConversionPace(cohorts, curve, len(cohorts))

    assert cohorts.seen.sum() == np.count_nonzero(~np.isnan(delay))
    assert cohorts.seen[:, 0].sum() == np.count_nonzero(delay < post_click)
    assert cohorts.expected.sum() == pytest.approx(p[~(delay < post_click)].sum(), abs=0.1)
    assert np.isfinite(found.rates).all()
    assert (found.rates > 0.0).all()
    assert found.weights.sum(axis=1) == pytest.approx(np.ones(len(cohorts)))


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"seen": [[1.0]]}, "one row each"),
        ({"expected": "many"}, "tables of numbers"),
        ({"within": [1.0]}, "one row each"),
        ({"age": [-1.0]}, "one row each|from 0 up"),
        ({"window": 60.0}, "post_click"),
        ({"window": 2 * WINDOW}, "must be 604800"),
    ],
)
def test_what_are_no_cohorts_is_refused(broken, told):
    data: dict[str, Any] = known_delays().to_dict()
    data["cohorts"] = {**data["cohorts"], **broken}

    with pytest.raises(ValueError, match=told):
        DelayDistribution.from_dict(data)
