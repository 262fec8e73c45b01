"""The analysis of a running experiment: what was predicted by the maps of the time, and what the
command line prints of the answer."""

import time
from types import SimpleNamespace

import numpy as np
import orjson

from app.api.cockpit.analysis import analysis_answer, hours_of_versions
from app.cli.measure.ab_test import show_experiment
from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.experiments import CHALLENGER_OF
from app.storage.versions import Versions
from calibrators import Atlas, CalibrationMap
from calibrators.arms import ARMS, BUCKETS, Split
from calibrators.bins.codecs import to_fixed
from tests.api.events import impression, outcome

HOUR, DAY = 3600.0, 86_400.0
EXPERIMENT = {"salt": "spring", "shares": {"challenger": 0.3, "raw": 0.2}}
NOTHING = SimpleNamespace(versions=SimpleNamespace(history=list), settings=Settings())
"""Of a service that has published nothing yet."""


def daily(first, now):
    """Every day 4 impressions of each bucket, and in every other a click that costs 1."""
    rng = np.random.default_rng(5)

    def day():
        sums = np.zeros((4, BUCKETS))
        sums[0], sums[1:3] = 4, rng.random(BUCKETS) < 0.5
        return to_fixed(sums)

    return {number: day() for number in range(first, int(now // DAY) + 1)}


def scaled(factor):
    return Atlas.build({}, CalibrationMap.proportional(factor))


def test_each_hour_is_predicted_with_the_maps_of_its_time(service, capsys):
    """Two hours ago the champion's maps halved scores, now they quarter them."""
    now = time.time()
    for hours, factor in ((4, 0.5), (1, 0.25)):
        maps = {"click": scaled(factor), CHALLENGER_OF("click"): scaled(factor / 2)}
        service.publish(maps, published_at=now - hours * HOUR)
    arms = {"champion": 40, "challenger": 20, "raw": 10}
    shown = [
        impression(now - 2 * HOUR, score=0.5, unit=f"u{n}", arm=arm)
        for arm, count in arms.items()
        for n in range(count)
    ]
    clicked = [outcome(now - 2 * HOUR, score=0.5, unit="u1", arm=arm) for arm in arms]
    assert service.http.post("/v1/events", json=shown + clicked).json()["rejected"] == []
    bins = BinsStore(service.store, 1_000_000)
    bins.fold()
    given = SimpleNamespace(
        bins=bins, versions=Versions(service.store, 24), settings=service.settings
    )
    experiment = {**EXPERIMENT, "since": now - 3.5 * DAY}

    found = analysis_answer(given, daily(int(now // DAY) - 8, now), "click", experiment, 60, now)
    found = orjson.loads(orjson.dumps(found))
    sides = found["analysis"]["predicted_over_actual"]

    assert (found["days"] + found["days_before"], found["days"] in (3, 4)) == (8, True)
    assert {arm: round(each["predicted"], 6) for arm, each in sides.items()} == {
        "champion": 41 * 0.25,
        "challenger": 21 * 0.125,
        "raw": 11 * 0.5,
    }
    assert [each["actual"] for each in sides.values()] == [1.0, 1.0, 1.0]
    assert found["analysis"]["arms"]["champion"]["metrics"]["ctr"]["value"] > 0.1
    assert len(found["analysis"]["lifts"]["raw"]["rpm"]["by_day"]) == found["days"]

    show_experiment(found)
    printed = capsys.readouterr().out
    assert "challenger: no clear difference in RPM from champion" in printed
    assert "CTR of raw, lift by day" in printed
    assert "10.2" in printed


def test_the_route_knows_who_has_an_experiment(service):
    url = "/v1/experiments/click/analysis"
    missing = service.http.get(url)
    experiment = {**EXPERIMENT, "since": time.time(), "state": "running", "watch": {}}
    maps = {"click": scaled(0.5), CHALLENGER_OF("click"): scaled(0.25)}
    service.publish(maps, {"experiments": {"click": experiment}})

    found = service.http.get(url, params={"days": 7})

    assert missing.status_code == 404
    assert missing.json()["detail"] == 'target = "click": has no experiment'
    assert (found.status_code, found.json()["analysis"]) == (200, None)
    assert service.http.get(url, params={"days": 61}).status_code == 422


def test_before_the_first_whole_day_there_is_no_analysis(capsys):
    now = 1_000 * DAY + 7 * HOUR
    experiment = {**EXPERIMENT, "since": now - HOUR}

    found = analysis_answer(None, daily(990, now), "click", experiment, 60, now)

    assert (found["analysis"], found["days"], found["days_before"]) == (None, 0, 10)
    show_experiment(found)
    assert capsys.readouterr().out == (
        "click: arms since 1972-09-28: no whole day of two arms yet.\n"
    )


def test_days_after_an_abort_are_nobodys():
    now = 1_000 * DAY + 7 * HOUR
    experiment = {**EXPERIMENT, "since": now - 9 * DAY, "aborted_at": 993 * DAY + HOUR}

    aborted, runs = (
        analysis_answer(NOTHING, daily(985, now), "click", one, 60, now)
        for one in (experiment, {**EXPERIMENT, "since": now - 9 * DAY})
    )

    assert [found["days"] for found in (aborted, runs)] == [1, 9]
    (lift,) = aborted["analysis"]["lifts"]["raw"]["rpm"]["by_day"]
    assert lift["day"] == "1972-09-19"


def test_a_change_of_shares_does_not_make_the_days_before_it_days_before_the_experiment():
    """What the arms did to units from the fifth day on must not be taken out as what they were."""
    now, rng = 1_000 * DAY + 7 * HOUR, np.random.default_rng(5)
    treated = Split(EXPERIMENT["salt"], EXPERIMENT["shares"]).arms == ARMS.index("challenger")
    likely = rng.lognormal(0.0, 0.5, BUCKETS)
    days = {}
    for day in range(980, 1_001):
        sums = np.full((4, BUCKETS), 100.0)
        sums[1] = rng.poisson(likely * np.where(treated & (day > 984), 12.0, 10.0))
        days[day] = to_fixed(sums)
    experiment = {**EXPERIMENT, "since": 984 * DAY + HOUR, "split_at": 993 * DAY + HOUR}

    found = analysis_answer(NOTHING, days, "click", experiment, 60, now)

    lift = found["analysis"]["lifts"]["challenger"]["ctr"]
    assert (found["days_before"], found["days"]) == (4, 7)
    assert lift["lower"] < 0.2 < lift["upper"]


def test_an_hour_is_of_the_version_in_force_when_it_began():
    history = [
        {"version": name, "published_at": hour * HOUR}
        for name, hour in (("c", 10.5), ("b", 10.2), ("a", 8.0), ("older", 2.0))
    ]

    found = dict(hours_of_versions(history, 6.5 * HOUR, 12.1 * HOUR))

    assert found == {"c": range(11, 13), "a": range(8, 11), "older": range(7, 8)}


def test_by_the_clock_of_events_it_begins_and_ends_where_they_are(event_clock_service):
    """A year later by the wall: an experiment of last year's log is none of today."""
    service, as_of = event_clock_service, 20_000 * DAY + 7 * HOUR
    service.publish({"click": scaled(0.5)}, as_of=as_of)
    body = {"target": "click", "challenger": {"method": "sir"}, "shares": {"challenger": 0.5}}
    started = service.http.post("/v1/admin/experiments", json=body).json()["experiment"]
    days = BinsStore(service.store, 1_000_000).unit_days
    later = as_of + 2 * DAY
    for day, sums in daily(19_998, later).items():
        days.put("click", day, (day + 1) * 24, sums)
    maps = {"click": scaled(0.25), CHALLENGER_OF("click"): scaled(0.125)}
    service.publish(maps, {"experiments": {"click": started}}, as_of=later)

    found = service.http.get("/v1/experiments/click/analysis").json()

    assert started["since"] == as_of
    assert (found["days_before"], found["days"]) == (2, 2)
    assert found["analysis"]["arms"].keys() == {"champion", "challenger"}
    history = [{"version": "b", "as_of": 8 * HOUR}, {"version": "a", "as_of": 5 * HOUR}]
    hours = dict(hours_of_versions(history, 6 * HOUR, 9 * HOUR, "as_of"))
    assert hours == {"b": range(8, 10), "a": range(6, 8)}
