"""Versions: whole or not at all, the last few kept, every byte of them checked."""

import re
from collections.abc import Callable

import pytest
import redis

from app.storage.errors import LeaseLost, StorageUnavailable, UnknownVersion
from app.storage.keys import CURRENT, HISTORY
from app.storage.keys import lease as lease_key
from app.storage.keys import version as key_of
from app.storage.lease import Lease
from app.storage.versions import STAGED_SECONDS, Published, Versions
from tests.storage.contents import contents
from tests.storage.interrupted_redis import Died, InterruptedRedis, die

ATLASES = {"click": bytes(range(256)) * 3, "conversion": b"", "view": b"v" * 100}
REPORT = {"as_of": 3600.0, "targets": {"click": {"fitted": 3, "pcoc": None}}}


@pytest.fixture
def versions(redis_client) -> Versions:
    """Three are kept, in chunks small enough for every atlas to have several."""
    return Versions(redis_client, kept=3, chunk_bytes=100)


@pytest.fixture
def publish(versions, token) -> Callable[[int], str]:
    """Publishes atlases that tell their number."""
    return lambda number: versions.publish(
        token, number, number + 0.5, {"click": b"%d" % number * 150}, {"number": number}
    )


def stored_versions(client: redis.Redis) -> set[str]:
    return {key.decode().removeprefix(key_of("")) for key in client.keys(key_of("*"))}


def test_before_the_first_publish_nothing_is_in_force(versions):
    assert versions.current() is None
    assert versions.history() == []


def test_a_version_is_loaded_as_it_was_published(versions, token):
    version = versions.publish(token, 3600.0, 3700.5, ATLASES, REPORT)

    assert versions.current() == version
    assert versions.load(version) == Published(version, 3600.0, 3700.5, ATLASES, REPORT)


def test_a_version_without_atlases_is_a_version(versions, token):
    version = versions.publish(token, 1.0, 2.0, {}, {})
    assert versions.load(version).atlases == {}


def test_chunks_of_any_size_give_the_same_bytes(redis_client, token):
    for size in (1, 99, 100, 101, 10**6):
        versions = Versions(redis_client, kept=1, chunk_bytes=size)
        version = versions.publish(token, 1.0, 2.0, {"click": b"v" * 100}, {})
        assert versions.load(version).atlases == {"click": b"v" * 100}


def test_requests_have_their_turn_while_a_large_atlas_is_read(redis_client, token):
    versions, pauses = Versions(redis_client, kept=1), []
    version = versions.publish(token, 1.0, 2.0, {"click": bytes(2**20)}, {})

    versions.load(version, None, lambda: pauses.append(None))

    assert len(pauses) == 4, "none for a whole megabyte"


def test_what_did_not_change_since_the_version_before_is_not_read_again(versions, token):
    """A reader can tell by the object that nothing changed, and spare itself the rest."""
    ids = [versions.publish(token, 1.0, 2.0, ATLASES | {"view": data}, {}) for data in (b"", b"w")]
    before = versions.load(ids[0])

    after = versions.load(ids[1], before)

    assert after.atlases == ATLASES | {"view": b"w"}
    assert after.atlases["click"] is before.atlases["click"]
    assert versions.load(ids[1]).atlases["click"] is not before.atlases["click"]


def test_an_atlas_that_moves_to_another_target_keeps_its_bytes(versions, token):
    first = versions.load(versions.publish(token, 1.0, 2.0, {"click": b"a", "view": b"b"}, {}))
    swapped = versions.publish(token, 1.0, 2.0, {"click": b"b", "view": b"a"}, {})

    assert versions.load(swapped, first).atlases == {"click": b"b", "view": b"a"}


def test_an_id_tells_the_order_and_the_content(versions, token):
    ids = [versions.publish(token, 1.0, 2.0, {"click": data}, {}) for data in (b"a", b"b", b"a")]

    assert all(re.fullmatch(r"\d{6}-[0-9a-f]{8}", version) for version in ids)
    assert [version[:6] for version in ids] == ["000001", "000002", "000003"]
    assert ids[0][7:] == ids[2][7:] != ids[1][7:]


def test_a_manifest_says_what_the_version_holds(versions, token):
    version = versions.publish(token, 3600.0, 3700.5, ATLASES, REPORT)

    manifest = versions.manifest(version)

    assert (manifest["version"], manifest["as_of"]) == (version, 3600.0)
    assert {
        target: (atlas["bytes"], atlas["chunks"]) for target, atlas in manifest["atlases"].items()
    } == {"click": (768, 8), "conversion": (0, 0), "view": (100, 1)}


def test_the_last_versions_are_kept_and_of_the_others_nothing(versions, publish, redis_client):
    ids = [publish(number) for number in range(6)]

    assert versions.current() == ids[-1]
    assert [manifest["version"] for manifest in versions.history()] == ids[:2:-1]
    assert [manifest["as_of"] for manifest in versions.history()] == [5, 4, 3]
    assert stored_versions(redis_client) == set(ids[3:])
    assert redis_client.llen(HISTORY) == 3
    with pytest.raises(UnknownVersion, match=f"'{ids[2]}' is not kept"):
        versions.load(ids[2])


def test_fewer_versions_are_kept_once_the_limit_is_lower(publish, redis_client, token):
    for number in range(3):
        publish(number)

    last = Versions(redis_client, kept=1).publish(token, 9.0, 9.0, {}, {})

    assert stored_versions(redis_client) == {last}


def test_at_least_one_version_is_kept(redis_client):
    with pytest.raises(ValueError, match="kept = 0: at least 1"):
        Versions(redis_client, kept=0)


def test_what_is_kept_has_no_time_to_live(publish, redis_client):
    """The version in force must outlast any pause of the worker."""
    version = publish(1)
    assert [redis_client.ttl(key) for key in (key_of(version), CURRENT, HISTORY)] == [-1] * 3


@pytest.mark.parametrize("has_successor", [True, False])
def test_a_stale_token_cannot_publish(versions, publish, redis_client, has_successor):
    """A worker that was frozen while another took over must not overwrite newer maps."""
    old = publish(1)
    redis_client.delete(lease_key("refit"))
    if has_successor:
        Lease(redis_client, "refit", "a", ttl=60.0).acquire()
    before = contents(redis_client)

    with pytest.raises(LeaseLost, match="'refit' is not held"):
        publish(2)

    assert versions.current() == old
    assert before[HISTORY.encode()] == contents(redis_client)[HISTORY.encode()]
    (orphan,) = stored_versions(redis_client) - {old}
    assert 0 < redis_client.ttl(key_of(orphan)) <= STAGED_SECONDS


def test_what_a_publisher_leaves_that_died_before_the_last_step_expires(
    versions, token, redis_client, redis_url
):
    dying = Versions(InterruptedRedis(redis_url, "publish_version", before=die), kept=3)
    with pytest.raises(Died):
        dying.publish(token, 1.0, 2.0, ATLASES, REPORT)

    (orphan,) = stored_versions(redis_client)
    assert 0 < redis_client.ttl(key_of(orphan)) <= STAGED_SECONDS
    assert versions.current() is None


def test_a_version_that_expired_before_its_last_step_does_not_come_into_force(
    versions, token, redis_client, redis_url
):
    def expire() -> None:
        redis_client.delete(*redis_client.keys(key_of("*")))

    slow = Versions(InterruptedRedis(redis_url, "publish_version", before=expire), kept=3)
    with pytest.raises(StorageUnavailable, match="expired before it was published"):
        slow.publish(token, 1.0, 2.0, ATLASES, REPORT)

    assert versions.current() is None
    assert versions.history() == []


def test_an_unknown_version_is_an_error_of_its_own(versions):
    for read in (versions.load, versions.manifest):
        with pytest.raises(UnknownVersion, match="'000009-00000000' is not kept"):
            read("000009-00000000")


def test_refits_within_an_hour_do_not_push_out_what_the_hours_before_are_judged_by(
    redis_client, token
):
    """Five-minute refits would leave two hours of versions otherwise."""
    versions = Versions(redis_client, kept=6)
    minutes = range(0, 4 * 60 + 1, 5)
    for minute in minutes:
        versions.publish(token, minute * 60.0, minute * 60.0, {}, {})

    kept = [entry["as_of"] / 60 for entry in versions.history()]

    assert kept == [240, 235, 230, 180, 120, 60]
    assert len(stored_versions(redis_client)) == 6


def test_without_a_superseded_version_the_oldest_goes(redis_client, token):
    versions = Versions(redis_client, kept=6)
    for hour in range(9):
        versions.publish(token, hour * 3600.0, hour * 3600.0, {}, {})

    assert [entry["as_of"] / 3600 for entry in versions.history()] == [8, 7, 6, 5, 4, 3]
