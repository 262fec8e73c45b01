"""Damage and junk in the store as callers of the API see it: never a 500, and soon mended."""

import time

import orjson
import pytest

from app.storage import keys
from app.storage.keys import TargetHour, seal, shard_of
from app.storage.lease import Heartbeat
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import eventually

EVENT = {"type": "impression", "campaign": "a", "scores": {"click": 0.5}}
WORKED = {200, 202, 503}
HALF = Atlas.build({"a": CalibrationMap.proportional(0.5)})


def hash_under(store, key):
    store.delete(key)
    store.hset(key, "junk", "junk")


def stored(service, now):
    """Whether an event is stored now; what is wrong in between is a 503."""
    event = {**EVENT, "id": "e", "occurred_at": now}
    answer = service.http.post("/v1/events", json=[event], headers={"Idempotency-Key": "k"})
    assert answer.status_code in WORKED, answer.text
    return answer.status_code != 503


@pytest.mark.parametrize("name", ["log", "seen", "logs", "hours", "request"])
def test_an_event_that_met_a_wrong_type_is_stored_once_when_it_is_sent_again(service, name):
    now = time.time()
    place = TargetHour(shard_of("a"), "click", int(now // 3600))
    one = {"log": place.log, "seen": place.seen, "request": keys.request("k")}
    of_shard = {"logs": keys.logs(place.shard), "hours": keys.hours(place.shard)}
    hash_under(service.store, {**one, **of_shard}[name])

    eventually(lambda: stored(service, now))

    assert service.bins("click", place.hour).total().total_count == 1


def test_a_retrain_is_queued_again_after_a_wrong_type(service):
    hash_under(service.store, keys.JOBS_SEQUENCE)

    eventually(lambda: service.http.post("/v1/admin/retrain").status_code == 202)


def test_what_is_served_comes_back_where_another_type_is_in_force(service):
    service.publish({"click": HALF})
    hash_under(service.store, keys.CURRENT)

    eventually(lambda: service.store.type(keys.CURRENT) == b"string")
    asked = {"target": "click", "campaign": "a", "scores": [0.5]}

    assert service.http.post("/v1/calibrate", json=asked).json()["probabilities"] == [0.25]
    assert service.http.get("/metrics").status_code == 200


JUNK = [
    {"guard": "junk"},
    {"clicks": [1]},
    {"clicks": {"open": "many"}},
    {"damaged": {"bins": {}}},
    {"held": "x", "phase": 3},
    {"refits": "many", "left_alone": {}},
    {"at": "noon"},
    {"at": 1e300},
]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("junk", JUNK)
def test_junk_in_the_heartbeat_is_never_a_500(lasting, junk, sealed):
    text = orjson.dumps({"at": time.time(), "refits": 4, **junk}).decode()
    said = seal(text, keys.HEARTBEAT) if sealed else text
    lasting.store.set(keys.HEARTBEAT, said)

    assert lasting.http.get("/metrics").status_code == 200
    assert lasting.http.get("/readyz").status_code == 200


def test_fresh_damage_is_counted_and_degrades(service):
    damaged = {"bins": 2, "at": int(time.time())}
    Heartbeat(service.store, 60).write({"at": time.time(), "damaged": damaged})

    eventually(lambda: service.http.get("/readyz").json().get("reasons") == ["store-damaged"])
    assert service.metrics("sirocco_damaged_total") == {(("kind", "bins"),): 2.0}

    old = {"bins": 2, "at": int(time.time()) - 3601}
    Heartbeat(service.store, 60).write({"at": time.time(), "damaged": old})
    eventually(lambda: service.http.get("/readyz").json()["status"] == "ready")
