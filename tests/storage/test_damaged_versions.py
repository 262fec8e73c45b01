"""Damaged versions: whatever byte is wrong, nobody loads them."""

import logging
from hashlib import sha256

import orjson
import pytest

from app.storage.errors import CorruptVersion
from app.storage.keys import version as key_of
from app.storage.versions import Versions

FIELDS = ("manifest", "report", "click:0", "click:1", "view:0")


@pytest.fixture
def versions(redis_client) -> Versions:
    return Versions(redis_client, kept=3, chunk_bytes=20)


@pytest.fixture
def version(versions, token) -> str:
    """A version of several chunks in force."""
    atlases = {"click": bytes(range(40)), "view": b"view"}
    return versions.publish(token, 1.0, 2.0, atlases, {"fitted": 3})


def test_a_version_has_the_fields_that_these_tests_damage(version, redis_client):
    assert {name.decode() for name in redis_client.hkeys(key_of(version))} == set(FIELDS)


@pytest.mark.parametrize("field", FIELDS)
def test_a_changed_byte_anywhere_and_another_length_are_noticed(
    field, version, versions, redis_client
):
    data = redis_client.hget(key_of(version), field) or b""
    flipped = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 3)]
    for damaged in (*flipped, b"", data[:-1], data + b"\0"):
        redis_client.hset(key_of(version), field, damaged)
        with pytest.raises(CorruptVersion, match=f"'{version}' is damaged: the sha256 of its"):
            versions.load(version)


@pytest.mark.parametrize("field", FIELDS[1:])
def test_a_missing_field_is_damage(field, version, versions, redis_client):
    redis_client.hdel(key_of(version), field)
    with pytest.raises(CorruptVersion, match=field.partition(":")[0]):
        versions.load(version)


def test_a_manifest_of_a_newer_schema_is_refused(version, versions, redis_client):
    packed = orjson.dumps({"schema_version": 2})
    redis_client.hset(key_of(version), "manifest", sha256(packed).digest() + packed)

    with pytest.raises(CorruptVersion, match="only schema_version 1 is known"):
        versions.load(version)


def test_history_leaves_out_and_logs_what_is_damaged_or_gone(
    version, versions, token, redis_client, caplog
):
    """One bad version must not hide the others."""
    gone, good = (versions.publish(token, 3.0, 4.0, {}, {}) for _ in range(2))
    redis_client.hset(key_of(version), "manifest", b"damaged")
    redis_client.delete(key_of(gone))

    with caplog.at_level(logging.ERROR):
        assert [manifest["version"] for manifest in versions.history()] == [good]

    assert f"version '{version}' is damaged" in caplog.text
    assert f"version '{gone}' is not kept" in caplog.text
