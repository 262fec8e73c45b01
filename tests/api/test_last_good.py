"""The last good maps on a host's disk: what is written, what is refused, what starts from it."""

import stat

import pytest

from app.api.last_good import BEFORE, NEWEST, LastGood, UnusableFile, packed, unpacked
from app.api.snapshot import Refresher
from app.settings import Settings
from app.storage import keys
from app.storage.lease import Lease
from app.storage.redis.client import store_of
from app.storage.versions import Notices, Published, Versions
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import eventually, serving

ASKED = {"target": "click", "campaign": "hats", "scores": [0.5]}


def of(number: int) -> Published:
    atlas = Atlas.build({"hats": CalibrationMap.proportional(1 / number)}).to_bytes()
    return Published(f"{number:06d}-ab", number, number + 0.5, {"click": atlas}, {"targets": {}})


def keep(folder, *numbers):
    last_good = LastGood(folder, "unix://a")
    for number in numbers:
        last_good.keep(of(number), lambda: None)
    last_good.close()


def test_the_newest_two_are_kept_and_only_their_owner_may_read(tmp_path):
    folder = tmp_path / "a" / "last-good"

    keep(folder, 1, 2, 3)

    assert LastGood(folder, "unix://a").read() == of(3)
    assert unpacked((folder / BEFORE).read_bytes(), "unix") == of(2)
    assert {path.name for path in folder.iterdir()} == {NEWEST, BEFORE, "lock"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_every_cut_and_every_flipped_byte_is_noticed_and_the_one_before_is_read(tmp_path, caplog):
    keep(tmp_path, 1, 2)
    whole = (tmp_path / NEWEST).read_bytes()
    cut = [whole[:at] for at in range(len(whole))]
    flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]

    assert unpacked(whole, "unix") == of(2)
    for damaged in cut + flipped:
        with pytest.raises(UnusableFile):
            unpacked(damaged, "unix")
    for damaged in (*cut[::50], flipped[0], flipped[4], flipped[-1]):
        (tmp_path / NEWEST).write_bytes(damaged)
        assert LastGood(tmp_path, "unix://a").read() == of(1)
    assert "its sha256 is wrong" in caplog.text
    assert "schema_version 0: only 1 is known" in caplog.text


def test_a_damaged_file_never_takes_the_place_of_the_whole_one_before(tmp_path):
    keep(tmp_path, 1, 2)
    (tmp_path / NEWEST).write_bytes(b"damaged")

    keep(tmp_path, 3)

    assert unpacked((tmp_path / BEFORE).read_bytes(), "unix") == of(1)


def test_a_full_disk_is_counted_and_tried_again_after_a_minute(tmp_path, monkeypatch):
    now = [0.0]
    last_good = LastGood(tmp_path, "unix://a", lambda: now[0])
    last_good.keep(of(1), lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr("app.whole_files.os.fsync", _full)
        last_good.keep(of(2), lambda: None)
        now[0] = 59.0
        last_good.keep(of(2), lambda: None)
    assert (last_good.failures, last_good.read()) == (1, of(1))
    assert not list(tmp_path.glob(".*"))

    now[0] = 60.0
    last_good.keep(of(2), lambda: None)
    last_good.close()

    assert (last_good.failures, last_good.read()) == (1, of(2))


def _full(_):
    raise OSError(28, "No space left on device")


def test_one_process_writes_and_the_next_takes_over(tmp_path):
    first, second = LastGood(tmp_path, "unix://a"), LastGood(tmp_path, "unix://a")
    first.keep(of(1), lambda: None)
    (tmp_path / ".left-by-a-killed-one.tmp").touch()

    second.keep(of(2), lambda: None)
    while_first_lives = second.read()
    first.close()
    second.keep(of(2), lambda: None)

    assert (while_first_lives, second.read()) == (of(1), of(2))
    assert not list(tmp_path.glob(".*"))
    second.close()


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("unix:///tmp/b", True),
        ("redis://a", False),
        ("redis://b/0", False),
        ("rediss://user:secret@a:6379/0", False),
    ],
)
def test_maps_of_another_store_are_left_alone(tmp_path, other, same, caplog):
    keep(tmp_path, 1)

    assert (LastGood(tmp_path, other).read() == of(1)) == same
    assert "secret" not in caplog.text


def test_a_store_is_known_by_its_address_and_database():
    urls = ("redis://a", "redis://a:6379/0", "rediss://user:secret@a:6379/")
    assert {store_of(url) for url in urls} == {"a:6379/0"}
    assert store_of("redis://a/1") == store_of("redis://a?db=1") == "a:6379/1"


def test_requests_have_their_turn_while_it_is_written(tmp_path):
    pauses = []
    large = Published("000001-ab", 1, 1, {"click": bytes(2**20)}, {})
    last_good = LastGood(tmp_path, "unix://a")

    last_good.keep(large, lambda: pauses.append(None))
    last_good.close()

    assert len(pauses) >= 4 + 4, "for the bytes, and for their digest"
    assert unpacked(b"".join(packed(large, "unix", list)), "unix") == large


@pytest.fixture
def settings(tmp_path):
    return Settings(port=0, refresh_seconds=0.01, snapshot_dir=tmp_path)


@pytest.fixture
def kept(settings, redis_url, atlas):
    """Has two versions in force, one after the other, and the newer on disk; returns their ids."""
    with serving(settings, redis_url) as service:
        older = service.publish({"click": Atlas.empty()})
        newer = service.publish({"click": atlas})
        eventually(
            lambda: (
                getattr(LastGood(settings.snapshot_dir, "unix://a").read(), "version", "") == newer
            )
        )
    return older, newer


def state(service):
    ready = service.http.get("/readyz")
    served = service.http.post("/v1/calibrate", json=ASKED).json()
    return ready.status_code, ready.json(), served["probabilities"]


def test_a_service_whose_store_is_away_starts_from_the_disk(kept, settings, tmp_path):
    with serving(settings, f"unix://{tmp_path}/none.sock") as service:
        assert state(service) == (
            200,
            {
                "status": "degraded",
                "version": kept[1],
                "reason": "store-away",
                "reasons": ["store-away", "serving-last-good"],
            },
            [0.25],
        )


def test_an_emptied_store_gets_the_version_of_the_disk_back(kept, settings, redis_client):
    redis_client.flushall()

    with serving(settings, "unix://" + _socket(redis_client)) as service:
        _, ready, served = state(service)

    assert (ready["status"], ready["reasons"], served) == ("degraded", ["store-emptied"], [0.25])
    assert ready["version"].startswith("000003-")


def _socket(client):
    return client.connection_pool.connection_kwargs["path"]


def test_of_other_targets_it_is_left_alone(kept, settings, tmp_path):
    others = settings.model_copy(update={"targets": ("view",), "delayed_targets": ()})

    with serving(others, f"unix://{tmp_path}/none.sock") as service:
        assert service.http.get("/readyz").json() == {"status": "starting", "version": "none"}


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("damage", ["flip", "drop"])
def test_a_damaged_version_in_force_is_never_the_identity(
    kept, settings, redis_client, on_disk, damage, atlas
):
    """The disk has it whole; without, the newest whole one of the store serves."""
    name = keys.version(kept[1])
    if damage == "flip":
        redis_client.hset(name, "click:0", b"damaged")
    else:
        redis_client.delete(name)
    where = {} if on_disk else {"snapshot_dir": "off"}

    with serving(settings.model_copy(update=where), "unix://" + _socket(redis_client)) as service:
        status, ready, _ = state(service)
        assert (status, ready["version"]) == (200, kept[1] if on_disk else kept[0])
        reason = {"flip": "version-damaged", "drop": "version-missing"}[damage]
        assert ready.get("reason") == (None if on_disk else reason)
        service.publish({"click": atlas})
        assert service.http.get("/readyz").json()["status"] == "ready"


def test_without_any_whole_version_it_is_not_ready(kept, settings, redis_client):
    for version in kept:
        redis_client.hset(keys.version(version), "manifest", b"damaged")
    without = settings.model_copy(update={"snapshot_dir": "off"})

    with serving(without, "unix://" + _socket(redis_client)) as service:
        ready = service.http.get("/readyz")

        assert ready.status_code == 503
        assert (ready.json()["status"], ready.json()["version"]) == ("not-ready", "none")
        assert ready.json()["reasons"] == ["version-damaged"]
        # What SiroccoDown looks at: processes run, and serve no version.
        serving_none = service.metric("sirocco_workers_serving", version="none")
        damaged = service.metric("sirocco_degraded", reason="version-damaged")
        assert (service.metric("sirocco_workers"), serving_none, damaged) == (1, 1, 1)


def test_an_empty_version_of_a_store_that_began_anew_is_not_taken(kept, settings, redis_client):
    """What a worker publishes that finds nothing, before the service has looked."""
    versions = Versions(redis_client, 8)
    refresher = Refresher(versions, Notices(redis_client), ("click",), pause_seconds=60)
    refresher.refresh()
    redis_client.flushall()
    lease = Lease(redis_client, "worker", "test", 60)
    lease.acquire()
    empty = versions.publish(lease.token, 1.0, 2.0, {"click": Atlas.empty().to_bytes()}, {})

    refresher.refresh()

    assert empty.startswith("000001-")
    assert refresher.current.version == versions.current()
    assert refresher.current.version.startswith("000003-")
    assert refresher.current.atlases["click"].at("hats", 0.5) == 0.25
    assert refresher.reasons == ["store-emptied"]
