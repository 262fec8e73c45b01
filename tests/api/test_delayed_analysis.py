"""Conversions of delayed targets by arm: from events to the click log, to days of units, to what an
experiment's analysis says of them."""

import math
from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from app.api.cockpit.analysis import analysis_answer
from app.cli.measure.ab_test import show_experiment
from app.settings import Settings
from calibrators.arms import BUCKETS, Split
from calibrators.bins.codecs import to_fixed

DAY = 86_400.0
EXPERIMENT = {"salt": "spring", "shares": {"challenger": 0.3}}
NOTHING = SimpleNamespace(versions=SimpleNamespace(history=list), settings=Settings())
"""Of a service that has published nothing yet."""


def day_of_clicks(rng, lifted, rate=0.2, value=5.0):
    """Two clicks of each bucket; of those of the lifted ones half as many again convert."""
    conversions = rng.binomial(2, np.where(lifted, 1.5 * rate, rate)).astype(float)
    return to_fixed(
        np.array([np.full(BUCKETS, 2.0), conversions, conversions / 2, 5 * conversions])
    )


def day_of_impressions():
    return to_fixed(np.array([np.full(BUCKETS, each) for each in (40.0, 2.0, 2.0, 0.0)]))


def answer(lifted, clicks=None):
    rng = np.random.default_rng(1)
    now = 1_000 * DAY + 7 * 3600
    experiment = {**EXPERIMENT, "since": now - 5.5 * DAY}
    daily = {day: day_of_impressions() for day in range(990, 1001)}
    if clicks is None:
        clicks = {day: day_of_clicks(rng, lifted) for day in range(990, 1001)}
    found = analysis_answer(NOTHING, daily, "click", experiment, 60, now, {"conversion": clicks})
    return orjson.loads(orjson.dumps(found))


def test_an_arm_whose_clicks_convert_more_is_told(capsys):
    challenger = Split(**EXPERIMENT).arms == 1

    found = answer(challenger)["delayed"]["conversion"]

    clicks = {arm: each["clicks"] for arm, each in found["arms"].items()}
    days = found["lifts"]["challenger"]["cvr"]["by_day"]
    assert clicks["challenger"] == 2 * challenger.sum() * len(days)
    assert sum(clicks.values()) == 2 * BUCKETS * len(days)
    for metric in ("cvr", "value_per_click", "roi"):
        lift = found["lifts"]["challenger"][metric]
        assert lift["lower"] < 0.5 < lift["upper"]
        assert lift["conclusion"] == "higher"
    arm = found["arms"]["champion"]
    assert arm["arrived"] == arm["conversions"] / 2
    assert arm["value"] == pytest.approx(5 * arm["conversions"])
    assert arm["metrics"]["roi"]["value"] == pytest.approx(arm["value"] / arm["cost"])
    assert arm["metrics"]["cvr"]["value"] == pytest.approx(arm["conversions"] / arm["clicks"])

    show_experiment(answer(challenger))
    printed = capsys.readouterr().out
    assert "conversion: by day of the click" in printed
    assert "challenger: CVR is higher than champion's by" in printed


def test_no_delayed_target_without_clicks_of_two_arms():
    nobody = np.zeros(BUCKETS, bool)
    champion = np.where(Split(**EXPERIMENT).arms == 0, 1, 0) * np.ones((4, 1), np.int64)

    assert answer(nobody, {})["delayed"] == {}
    assert answer(nobody, {997: to_fixed(champion.astype(float))})["delayed"] == {}


def test_an_undefined_roi_is_left_out():
    rng = np.random.default_rng(1)
    now = 1_000 * DAY
    free = {day: day_of_impressions() * np.array([[1], [1], [0], [1]]) for day in range(990, 1000)}
    clicks = {day: day_of_clicks(rng, np.zeros(BUCKETS, bool)) for day in range(990, 1000)}
    experiment = {**EXPERIMENT, "since": now - 4 * DAY}

    found = analysis_answer(NOTHING, free, "click", experiment, 60, now, {"conversion": clicks})

    metrics = found["delayed"]["conversion"]["arms"]["champion"]["metrics"]
    assert set(metrics) == {"cvr", "value_per_click"}
    assert not any(math.isnan(each["value"]) for each in metrics.values())
