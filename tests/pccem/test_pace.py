"""Pace: conversions that come sooner are not taken for more, nor more for sooner."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from pccem import Attribution, Cohorts, DelayDistribution, LabelRules, attribute, label
from pccem.arrays import Floats

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
        known, delays = self.known(recent), self.delays()
        labels = label(self.p[recent], known, delays, rows, ["a"], RULES, times)
        return float(labels.sum() / np.count_nonzero(~np.isnan(self.delay[recent])))


def test_faster_is_not_taken_for_more() -> None:
    """Four days on, older clicks show that little is left to come."""
    stream = Stream.draw(4 * DAY, pace=4.0)

    assert stream.ratio(told=False) > 1.1
    assert stream.ratio(told=True) == pytest.approx(1.0, abs=0.08)


def test_more_is_not_taken_for_faster() -> None:
    assert Stream.draw(4 * DAY, more=2.2).ratio(told=True) == pytest.approx(1.0, abs=0.08)


def test_where_nothing_changes_nothing_is_corrected() -> None:
    assert Stream.draw(0.0).ratio(told=True) == pytest.approx(1.0, abs=0.08)


def test_cohorts_come_back_out_of_json() -> None:
    delays = Stream.draw(0.0, n=50_000).delays()

    back = DelayDistribution.from_dict(delays.to_dict())

    assert back.to_dict() == delays.to_dict()
    assert back.cohorts is not None
    assert delays.cohorts is not None
    assert back.cohorts.seen.sum() == delays.cohorts.seen.sum() > 0


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"seen": [[1.0]]}, "one row each"),
        ({"expected": "many"}, "tables of numbers"),
        ({"age": [-1.0]}, "one row each|from 0 up"),
        ({"window": 60.0}, "post_click"),
        ({"window": 2 * WINDOW}, "must be 604800"),
    ],
)
def test_what_are_no_cohorts_is_refused(broken: dict[str, object], told: str) -> None:
    data: dict[str, Any] = Stream.draw(0.0, n=50_000).delays().to_dict()
    data["cohorts"] = {**data["cohorts"], **broken}

    with pytest.raises(ValueError, match=told):
        DelayDistribution.from_dict(data)
