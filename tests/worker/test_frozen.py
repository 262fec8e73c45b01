"""Refits of frozen targets: they are evaluated, and keep their maps."""

import sys

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.overrides import FrozenTargets
from app.storage.versions import Versions
from app.worker.loop import Worker, summary
from app.worker.progress import PUBLISHING
from app.worker.refit import Request
from calibrators import Atlas, CalibrationMap
from tests.worker.conftest import HOUR


@pytest.fixture
def worker(new_worker, append_log, outcomes):
    append_log(outcomes(hours=4))
    return new_worker()


def refit(worker, hour):
    return worker._refitter.run(Request((HOUR + hour) * SECONDS), worker._lease.token, worker._now)


def atlas_of(versions, report):
    return Atlas.from_bytes(versions.load(report["version"]).atlases["click"])


@pytest.mark.slow
def test_maps_stay_and_the_hours_are_evaluated(worker, redis_client):
    versions, frozen = Versions(redis_client, 8), FrozenTargets(redis_client)
    first = versions.load(refit(worker, 2)["version"])
    frozen.freeze(["click"], 1.0)

    report = refit(worker, 4)

    second = versions.load(report["version"])
    assert second.atlases == first.atlases
    assert report["targets"]["click"]["frozen"]
    assert summary(report)["targets"]["click"]["frozen"]
    assert report["targets"]["click"]["judged_until"] == (HOUR + 4) * SECONDS
    assert report["targets"]["click"]["fitted_as_of"] == (HOUR + 2) * SECONDS
    frozen.release(["click"])
    third = refit(worker, 4)
    assert versions.load(third["version"]).atlases != first.atlases
    assert "frozen" not in third["targets"]["click"]


@pytest.mark.parametrize("frozen", [["click"], ["view"], ["click", "view"]])
def test_hours_are_refitted_once_beside_what_is_frozen(new_worker, redis_client, clock, frozen):
    worker = new_worker(targets=("click", "view"), delayed_targets=())
    clock.seconds = (HOUR + 2.5) * SECONDS
    worker.step()
    FrozenTargets(redis_client).freeze(frozen, 1.0)
    clock.seconds = (HOUR + 4.5) * SECONDS

    for _ in range(4):
        worker.step()
    seen = [HOUR + hour for hour in (4, 3, 2)]
    assert [row["as_of"] / SECONDS for row in worker._versions.history()] == seen
    FrozenTargets(redis_client).release(frozen)
    clock.seconds += SECONDS
    worker.step()
    assert [row["as_of"] / SECONDS for row in worker._versions.history()] == [HOUR + 5, *seen]


def test_a_target_that_is_behind_takes_the_others_back_to_no_hour(new_worker, redis_client, clock):
    worker = new_worker(targets=("click", "view"), delayed_targets=())
    clock.seconds = (HOUR + 4.5) * SECONDS
    worker.step()
    token = worker._lease.token
    worker._refitter.run(Request((HOUR + 1) * SECONDS, "click"), token, worker._now)
    later = Worker(worker._settings, redis_client, clock, "test")
    later._lease = worker._lease

    assert later._schedule.due() == [(HOUR + 4) * SECONDS]
    clock.seconds += SECONDS
    assert later._schedule.due() == [(HOUR + 5) * SECONDS]


def test_frozen_campaigns_keep_what_serves_them(worker, redis_client):
    """With a map of their own or without, in refits of all and of some campaigns."""
    versions, frozen = Versions(redis_client, 8), FrozenTargets(redis_client)
    first = atlas_of(versions, refit(worker, 2))
    name = first.campaigns[0]
    handled = []

    def freeze(step):
        handled.append(sys.exc_info()[0])
        if step.phase == PUBLISHING:
            frozen.freeze([f"click:{name}", "click:new"], 1.0)

    worker._refitter.advance = freeze

    report = refit(worker, 4)

    # The error of the first attempt would keep all of its maps in memory.
    assert {*handled} == {None}
    second = atlas_of(versions, report)
    assert second.map_of(name) == first.map_of(name)
    assert second.map_of("new") == first.map_of("new") != second.target_map
    assert report["targets"]["click"]["frozen_campaigns"] == 2
    decided = {row["campaign"]: row["decision"] for row in report["targets"]["click"]["top"]}
    assert decided[name] == "frozen"
    named = Request((HOUR + 4) * SECONDS, "click", [name])
    third = worker._refitter.run(named, worker._lease.token, worker._now)
    assert atlas_of(versions, third).map_of(name) == first.map_of(name)


def test_an_approval_keeps_what_serves_frozen_campaigns(worker, redis_client):
    versions, frozen = Versions(redis_client, 8), FrozenTargets(redis_client)
    first = atlas_of(versions, refit(worker, 2))
    name = first.campaigns[0]
    held = {"click": Atlas.build({name: CalibrationMap.proportional(0.5)}).to_bytes()}
    token, report = worker._lease.token, {"targets": {"click": {}}}
    version = versions.hold(token, HOUR * SECONDS, 1.0, held, report, {"reasons": {}})
    frozen.freeze([f"click:{name}"], 1.0)

    report = worker._refitter.approve(version, worker._lease.token, 2.0)

    assert atlas_of(versions, report).map_of(name) == first.map_of(name)


def test_who_freezes_amid_a_refit_keeps_what_served(worker, redis_client):
    """The refit is done once more, without the target."""
    versions, frozen = Versions(redis_client, 8), FrozenTargets(redis_client)
    first = versions.load(refit(worker, 2)["version"])
    worker._refitter.advance = lambda step: (
        frozen.freeze(["click"], 1.0) if step.phase == PUBLISHING else None
    )

    report = refit(worker, 4)

    assert versions.load(report["version"]).atlases == first.atlases
    assert report["targets"]["click"]["frozen"]
    assert summary(report)["targets"]["click"]["frozen"]
