"""Refits with maps on trial: fitted beside those that serve, evaluated hour by hour."""

from dataclasses import replace

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.bins import BinsStore
from app.storage.experiments import with_experiment
from app.storage.versions import Versions
from app.worker.atlas_cache import CachedVersion, Steering
from app.worker.experiments import Challengers
from app.worker.monitoring import scorecard_of
from app.worker.refit import Refitter, Request, _Present
from calibrators import Atlas, CalibrationMap
from tests.worker.conftest import HOUR

RUNNING = {"salt": "a", "shares": {}, "canary": False, "since": 1.0, "state": "running"}
HALF = Atlas.build({"big": CalibrationMap.proportional(0.5)})


@pytest.fixture
def versions(redis_client):
    return Versions(redis_client, 8)


@pytest.fixture
def refit(redis_client, settings, versions, lease, clock, append_log, outcomes):
    """Refits as of an hour; gives the report and the version."""
    append_log(outcomes(hours=6))
    guarded = settings.model_copy(update={"guard": True})
    refitter = Refitter(guarded, BinsStore(redis_client, 3600), versions)

    def run(hour, campaigns=None):
        target = None if campaigns is None else "click"
        request = Request((HOUR + hour) * SECONDS, target, campaigns)
        report = refitter.run(request, lease.token, clock)
        return report, versions.load(report["version"])

    return run


@pytest.fixture
def start(versions):
    """Puts an experiment on the target into force, as the service does."""

    def begin(challenger, atlas=None):
        present = versions.load(versions.current())
        trial = {"first_hour": int(present.as_of // SECONDS), "fitted_as_of": present.as_of}
        on_trial = (atlas.to_bytes(), trial) if atlas else ()
        experiment = RUNNING | {"challenger": challenger}
        assert versions.put_in_force(with_experiment(present, "click", experiment, *on_trial))

    return begin


@pytest.mark.slow
def test_a_method_is_fitted_and_evaluated_beside_the_maps_that_serve(refit, start, redis_client):
    refit(2)
    start({"method": "beta"})

    first, version = refit(3)
    second, _ = refit(4)
    third, _ = refit(5)

    on_trial = Atlas.from_bytes(version.atlases["click:challenger"])
    assert set(version.atlases) == {"click", "click:challenger"}
    assert on_trial.map_of("big") != Atlas.from_bytes(version.atlases["click"]).map_of("big")
    row = first["targets"]["click"]["challenger"]
    assert (row["calibrator"], row["fitted"], row["first_hour"]) == ("beta", 2, HOUR + 3)
    assert "window" not in row
    bins = BinsStore(redis_client, 3600)
    expected = on_trial.calibrated(bins.hour("click", HOUR + 3))
    row = second["targets"]["click"]["challenger"]
    scores = scorecard_of([expected])
    assert {name: row["hour"][name] for name in scores} == pytest.approx(scores)
    assert row["hour"] == row["window"]
    assert row["hour"]["gc_3_floor"] > 0.0
    assert row["champion"]["hour"] == second["targets"]["click"]["hour"]["calibrated"]
    row = third["targets"]["click"]["challenger"]
    both = bins.window_blocks("click", HOUR + 3, HOUR + 5, calibrated=True)
    assert row["champion"]["window"] == scorecard_of(both, floors=True)
    assert row["window"]["log_loss"] not in (None, row["champion"]["window"]["log_loss"])
    assert third["experiments"]["click"]["challenger"] == {"method": "beta"}


@pytest.mark.slow
def test_maps_that_serve_are_the_same_to_the_last_bit(refit, start, versions):
    refit(2)
    plain, without = refit(4)
    versions.put_in_force(
        replace(versions.load(versions.history()[1]["version"]), version=versions.current())
    )
    start({"method": "pooled"})

    report, with_one = refit(4)

    assert with_one.atlases["click"] == without.atlases["click"]
    assert "experiments" not in plain
    report["targets"]["click"].pop("challenger")
    assert report["targets"] == plain["targets"]


@pytest.mark.slow
def test_maps_of_a_version_stay_whatever_is_refitted(refit, start):
    refit(2)
    start({"version": "000001-ab"}, HALF)

    refit(3)
    report, version = refit(3, campaigns=["big"])
    last, _ = refit(4)

    assert version.atlases["click:challenger"] == HALF.to_bytes()
    assert report["experiments"]["click"]["challenger"] == {"version": "000001-ab"}
    assert last["targets"]["click"]["challenger"]["window"]["pcoc"] == pytest.approx(0.3, abs=0.15)


@pytest.mark.slow
def test_a_fit_that_fails_fails_no_refit(refit, start, monkeypatch):
    refit(2)
    start({"method": "beta"})
    _, before = refit(3)
    monkeypatch.setattr(Challengers, "_fitted", lambda *_: 1 / 0)

    report, version = refit(4)

    assert version.atlases["click:challenger"] == before.atlases["click:challenger"]
    assert version.atlases["click"] != before.atlases["click"]
    row = report["targets"]["click"]["challenger"]
    assert (row["failed"], row["first_hour"]) == ("ZeroDivisionError: division by zero", HOUR + 3)
    monkeypatch.undo()
    assert refit(5)[0]["targets"]["click"]["challenger"]["failed"] is None


def test_a_method_that_there_is_not_any_more_is_told_in_the_report(refit, start):
    refit(2)
    start({"method": "splines"})

    report, version = refit(3)

    assert "splines" in report["targets"]["click"]["challenger"]["failed"]
    assert set(version.atlases) == {"click"}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "used"), [("beta", "beta"), ("splines", "sir")])
def test_a_promoted_method_stands_in_the_place_of_the_settings(refit, versions, method, used):
    refit(2)
    present = versions.load(versions.current())
    versions.put_in_force(replace(present, report=present.report | {"methods": {"click": method}}))

    refit(3)
    report, _ = refit(4, campaigns=["big"])

    assert report["methods"] == {"click": method}
    assert report["targets"]["click"]["calibrator"] == used


def test_maps_that_were_promoted_are_compared_with_themselves():
    """On the newest hour, which neither has seen: those on trial when it began, not the champion
    that they replaced."""
    champion, trial = (Atlas.build({}, CalibrationMap.proportional(x)) for x in (1.0, 0.5))
    running = {"click": RUNNING | {"challenger": {"method": "sir"}}}
    before = CachedVersion(
        1.0, {"click": champion}, steering=Steering(running, {}, {"click": trial})
    )

    def compared(**methods):
        now = CachedVersion(2.0, {"click": trial}, steering=Steering(methods=methods))
        return _Present(now, before, {}, (), None).order(Request(3.0), "click").compared

    assert compared(click="sir").map_of("any") == trial.map_of("any")
    assert compared().map_of("any") == champion.map_of("any")
    assert compared(click="beta").map_of("any") == champion.map_of("any"), "another's maps"
