"""What version 1 stored, byte for byte: this version reads all of it and goes on from there."""

import shutil
from pathlib import Path

import pytest
import redis

from app.api.last_good import unpacked
from app.api.snapshot import Refresher
from app.click_log.log import ClickLog
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.integrity.damage import Damage
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat
from app.storage.models import Models
from app.storage.overrides import Overrides
from app.storage.versions import Notices, Versions
from app.worker.loop import Worker
from calibrators import Atlas, CalibrationMap
from tests.storage.stored_traffic import AS_OF, HOURS, TrafficClock, restore_bytes, traffic_settings

KEPT = Path(__file__).parent / "formats" / "v1"
HOUR = int(AS_OF // 3600)


@pytest.fixture
def former(redis_client) -> redis.Redis:
    """A store that version 1 has left behind."""
    restore_bytes(redis_client, KEPT)
    return redis_client


def test_hours_events_and_conversions_that_waited_are_read(former):
    store, log = BinsStore(former, 3600), ConversionLog(former)

    folded = [store.hour("click", hour).total().total_count for hour in range(HOUR - 4, HOUR)]
    waiting = store.fold()
    conversions = [found for held in log.pending() for found in log.read(held)[1]]

    # Of 120 impressions sent twice and 4 clicks; then two requests that share half of theirs.
    assert folded == [120.0] * (HOURS + 1)
    assert (waiting, len(conversions)) == (186, 6)
    assert store.fold() == 0
    assert store.hours("click") == [*range(HOUR - 4, HOUR + 1)]
    assert sum(former.exists(f"sirocco:{{{shard:02d}}}:logs") for shard in range(16)) == 0
    assert Damage(former).counts() == {}


def test_open_clicks_are_closed_and_behaviours_without_one_expire(former):
    clicks = OpenClicks(former)

    due = clicks.begin_close(AS_OF + 1e6, 100)

    assert {click.behaviours[0][0] for click in due} == {"page_views"}
    before = clicks.counts()["closed"]
    assert clicks.finish_close(due) == len(due) == clicks.counts()["closed"] - before == 9
    assert clicks.expire_waiting(AS_OF + 1e9) == 22
    assert Damage(former).counts() == {}


def test_jobs_calibrators_models_and_the_worker_s_last_sign_are_read(former):
    jobs = Jobs(former)

    assert [jobs.get(f"{number:06d}").status for number in range(1, 5)] == [
        "done",
        "failed",
        "running",
        "queued",
    ]
    assert jobs.requeue_running() == 1
    assert (jobs.take(1.0).kind, jobs.take(1.0).kind, jobs.take(1.0)) == ("refit", "train", None)
    assert Overrides(former).read() == {"click": {"big": "isotonic"}}
    assert Heartbeat(former, 60).read()["refits"] == 5
    model = Models(former).history("conversion")[0]["version"]
    assert Models(former).load("conversion", model).source == "delays"
    assert Versions(former, 8).held()["reasons"] == {"click": "moved-far"}


def test_an_upgrade_serves_the_maps_that_were_in_force(former):
    versions = Versions(former, 8)
    refresher = Refresher(versions, Notices(former), ["click"], 60.0)

    refresher.refresh()

    assert refresher.current.version == versions.current()
    atlas = refresher.current.atlases["click"]
    assert atlas.campaigns == ("big",)
    assert atlas.map_of("big") != CalibrationMap.identity()
    last_good = unpacked((KEPT / "last-good" / "last-good.maps").read_bytes(), "unix")
    assert Atlas.from_bytes(last_good.atlases["click"]).to_bytes() == atlas.to_bytes()


def test_a_worker_goes_on_where_version_1_stopped(former, tmp_path):
    shutil.copytree(KEPT / "click-log", tmp_path / "click-log")
    settings, clock = traffic_settings(tmp_path), TrafficClock()
    clock.seconds = AS_OF + 3600 + settings.refit_delay_seconds
    former.delete("sirocco:{maps}:lease:worker")
    worker = Worker(settings, former, clock, "next")
    assert worker._lease.acquire()

    while worker.step():
        continue

    newest = Versions(former, 8).history()[0]
    assert newest["as_of"] == AS_OF + 3600
    assert BinsStore(former, 3600).hour("click", HOUR).total().total_count == 180.0
    assert ClickLog.open(settings.click_log).damaged() == worker._state["failures"] == 0
    assert Damage(former).counts() == {}
