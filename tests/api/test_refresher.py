"""Which version is served when versions are damaged, dropped, or written by a stranger."""

import numpy as np
import pytest

from app.api.snapshot import Refresher
from app.storage import keys
from app.storage.errors import StorageUnavailable
from app.storage.lease import Lease
from app.storage.versions import Notices, Versions
from calibrators import Atlas, CalibrationMap
from calibrators.maps import look_up

TARGETS = ("click", "conversion")


@pytest.fixture
def versions(redis_client):
    return Versions(redis_client, kept=3)


@pytest.fixture
def publish_all(redis_client, versions):
    lease = Lease(redis_client, "worker", "test", 60)
    lease.acquire()
    return lambda atlases, report=(): versions.publish(lease.token, 1.0, 2.0, atlases, dict(report))


@pytest.fixture
def publish(publish_all):
    return lambda data: publish_all({"click": data})


@pytest.fixture
def refresher(versions, redis_client):
    return Refresher(versions, Notices(redis_client), TARGETS, pause_seconds=60)


def atlas_bytes(ratio):
    return Atlas.build({"a": CalibrationMap.proportional(ratio)}).to_bytes()


def test_the_published_version_is_taken(refresher, publish):
    version = publish(atlas_bytes(0.5))

    refresher.refresh()

    snapshot = refresher.current
    assert (snapshot.version, snapshot.as_of, snapshot.published_at) == (version, 1.0, 2.0)
    assert snapshot.atlases["click"].at("a", 0.5) == 0.25
    assert snapshot.atlases["conversion"].at("a", 0.5) == 0.5
    assert (refresher.store_seen, refresher.store_up) == (True, True)


def test_a_first_version_that_comes_between_two_reads_is_not_missing(
    refresher, versions, publish, monkeypatch
):
    monkeypatch.setattr(versions, "any_published", lambda: bool(publish(atlas_bytes(0.5))))

    refresher.refresh()
    between = list(refresher.reasons)
    refresher.refresh()

    assert (between, refresher.reasons) == ([], [])
    assert refresher.current.atlases["click"].at("a", 0.5) == 0.25


def test_what_did_not_change_is_shared_with_the_snapshot_before(refresher, publish_all):
    """An atlas that is the same is not read again; of another, the campaigns are shared."""
    publish_all({"click": atlas_bytes(0.5), "conversion": atlas_bytes(0.5)})
    refresher.refresh()
    before = refresher.current
    publish_all({"click": atlas_bytes(0.5), "conversion": atlas_bytes(0.25)})

    refresher.refresh()

    after = refresher.current
    assert after.version != before.version
    assert after.atlases["click"] is before.atlases["click"]
    assert after.atlases["conversion"].at("a", 0.5) == 0.125
    assert after.atlases["conversion"].campaigns is before.atlases["conversion"].campaigns
    assert after.ids["conversion"] is before.ids["conversion"]


EXPERIMENT = {
    "challenger": {"method": "sir"},
    "salt": "spring",
    "shares": {"challenger": 0.25},
    "state": "running",
}


@pytest.mark.parametrize(
    ("changed", "on_trial", "split"),
    [
        ({}, True, {"click": 1024}),
        ({"state": "aborted"}, True, {}),
        ({"shares": {"challenger": 0.0}}, True, {}),
        ({}, False, {}),
    ],
)
def test_maps_on_trial_come_with_the_split_of_one_version(
    refresher, publish_all, changed, on_trial, split
):
    """There is no split before there are maps for it, and they are no target."""
    report = {"experiments": {"click": EXPERIMENT | changed}}
    own, challengers = {"click": atlas_bytes(0.5)}, {"click:challenger": atlas_bytes(0.25)}
    publish_all(own | challengers, report)
    refresher.refresh()
    before = refresher.current

    publish_all(own | (challengers if on_trial else {}), report)
    refresher.refresh()

    snapshot = refresher.current
    assert set(snapshot.atlases) == set(snapshot.ids) == set(TARGETS)
    assert {t: atlas.at("a", 0.5) for t, atlas in snapshot.challengers.items()} == (
        {"click": 0.125} if on_trial else {}
    )
    assert ("click:challenger" in snapshot.packed) is on_trial
    found = {target: np.count_nonzero(one.arms == 1) for target, one in snapshot.splits.items()}
    assert found == split
    assert not on_trial or snapshot.challengers["click"] is before.challengers["click"]
    assert all(snapshot.splits[target] is before.splits[target] for target in split)


def test_a_target_that_has_no_atlas_any_more_is_served_by_the_identity(refresher, publish_all):
    publish_all({"click": atlas_bytes(0.5), "other": atlas_bytes(0.5)})
    refresher.refresh()
    publish_all({"other": atlas_bytes(0.25)})

    refresher.refresh()

    assert refresher.current.atlases["click"].at("a", 0.5) == 0.5
    assert set(refresher.current.atlases) == set(TARGETS)


@pytest.mark.parametrize(
    "damage",
    [
        # Zeros at the end are there without being stored.
        lambda data: data.rstrip(b"\0")[:-1],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"",
    ],
)
@pytest.mark.parametrize("field", ["manifest", "report", "click:0"])
def test_a_damaged_version_is_refused_once_and_the_one_before_stays(
    refresher, publish, redis_client, damage, field, caplog
):
    good = publish(atlas_bytes(0.5))
    refresher.refresh()
    bad = publish(atlas_bytes(0.25))
    name = keys.version(bad)
    redis_client.hset(name, field, damage(redis_client.hget(name, field)))

    refresher.refresh()
    refresher.refresh()

    assert refresher.current.version == good
    assert refresher.refused_versions == 1
    assert f"refused {bad}, still serving {good}" in caplog.text


@pytest.mark.parametrize("data", [b"", b"not an atlas", atlas_bytes(0.5)[:-8]])
def test_an_atlas_that_cannot_be_read_is_refused(refresher, publish, data):
    """Its digest is right, but no atlas is in it."""
    publish(data)

    refresher.refresh()

    assert (refresher.current.version, refresher.refused_versions) == ("none", 1)
    assert refresher.store_up


def test_a_store_that_was_never_there_is_logged_once(redis_client, caplog):
    versions = _Failing(StorageUnavailable("nobody answers"))
    refresher = Refresher(versions, Notices(redis_client), TARGETS, pause_seconds=60)

    for _ in range(3):
        refresher.refresh()

    assert (refresher.store_seen, caplog.text.count("the store is away")) == (False, 1)


def test_the_version_after_a_refused_one_is_taken(refresher, publish):
    publish(b"not an atlas")
    refresher.refresh()
    good = publish(atlas_bytes(0.5))

    refresher.refresh()

    assert refresher.current.version == good


def test_a_version_dropped_between_two_reads_is_not_refused(refresher, publish, redis_client):
    dropped = publish(atlas_bytes(0.5))
    redis_client.delete(keys.version(dropped))

    refresher.refresh()

    assert (refresher.current.version, refresher.refused_versions) == ("none", 0)
    assert refresher.store_up


class _Failing(Versions):
    """Versions that fail in the way they are told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def current(self) -> None:
        if self.error is not None:
            raise self.error

    def any_published(self) -> bool:
        return False


def test_the_store_that_goes_away_is_logged_once_and_found_again(redis_client, caplog):
    versions = _Failing(StorageUnavailable("it is gone"))
    refresher = Refresher(versions, Notices(redis_client), TARGETS, pause_seconds=60)

    for error in (None, StorageUnavailable("it is gone"), StorageUnavailable("it is gone")):
        versions.error = error
        refresher.refresh()
    assert (refresher.store_seen, refresher.store_up) == (True, False)
    assert caplog.text.count("the store is away, serving none: it is gone") == 1

    versions.error = None
    refresher.refresh()
    assert refresher.store_up


def test_whatever_a_version_does_the_watch_goes_on(redis_client, caplog):
    versions = _Failing(KeyError("surprise"))
    refresher = Refresher(versions, Notices(redis_client), TARGETS, pause_seconds=0.001)

    refresher.start()
    refresher.stop()

    assert "the refresh failed; the maps stay as they are" in caplog.text
    assert not refresher.store_seen


def test_requests_have_their_turn_between_the_pieces_of_a_version(
    refresher, redis_client, monkeypatch
):
    """Of what is read, and of what is made of it."""
    pauses = []
    monkeypatch.setattr("app.api.snapshot.Pace", lambda others: lambda: pauses.append(None))
    monkeypatch.setattr(look_up, "_FILLED", 4)
    maps = {f"c{number}": CalibrationMap.proportional(0.5) for number in range(20)}
    data = Atlas.build(maps).to_bytes()
    lease = Lease(redis_client, "worker", "test", 60)
    lease.acquire()
    chunked = Versions(redis_client, kept=3, chunk_bytes=len(data) // 7 + 1)
    chunked.publish(lease.token, 1.0, 2.0, {"click": data}, {})

    refresher.refresh()

    assert refresher.current.atlases["click"].at("c19", 0.5) == 0.25
    assert len(pauses) >= 7 + 10
