"""Readers of versions: whatever is published meanwhile, they load one version, whole."""

from itertools import count
from threading import Event, Thread

import pytest

from app.storage.errors import UnknownVersion
from app.storage.lease import LeaseToken
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from tests.storage.interrupted_redis import InterruptedRedis

PUBLISHED = 40


def publish(versions: Versions, token: LeaseToken, number: int) -> str:
    """A version that is told by each of its parts."""
    atlases = dict.fromkeys(("click", "view"), b"%d " % number * 500)
    return versions.publish(token, number, number, atlases, {"number": number})


class Reader(Thread):
    """Loads the version in force, again and again."""

    def __init__(self, url: str, done: Event) -> None:
        super().__init__()
        self._url = url
        self._done = done
        self.numbers: list[int] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with open_redis(self._url, timeout_seconds=10.0) as client:
                versions = Versions(client, kept=2)
                while not self._done.is_set():
                    self._read(versions)
        except BaseException as error:
            self.failure = error

    def _read(self, versions: Versions) -> None:
        version = versions.current()
        assert version is not None
        try:
            published = versions.load(version)
        except UnknownVersion:
            return  # two newer ones came in the meantime
        number = int(published.as_of)
        assert published.report == {"number": number}
        assert set(published.atlases.values()) == {b"%d " % number * 500}
        self.numbers.append(number)


def test_readers_during_publishes_always_load_a_whole_version_and_never_an_older_one(
    redis_client, redis_url, token
):
    versions = Versions(redis_client, kept=2, chunk_bytes=300)
    last = publish(versions, token, 0)
    done = Event()
    readers = [Reader(redis_url, done) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in count(1):
        last = publish(versions, token, number)
        # A machine may let them read none of the first.
        if number >= PUBLISHED and all(reader.numbers or reader.failure for reader in readers):
            break
    done.set()
    for reader in readers:
        reader.join()

    assert [reader.failure for reader in readers] == [None, None]
    assert all(reader.numbers == sorted(reader.numbers) for reader in readers)
    assert versions.current() == last


def test_a_version_that_is_dropped_under_its_reader_is_unknown_not_damaged(
    redis_client, redis_url, token
):
    """A reader that is told of damage would raise an alarm; this one only has to look again."""
    versions = Versions(redis_client, kept=1)
    version = publish(versions, token, 0)

    def publish_the_next() -> None:
        publish(versions, token, 1)

    slow = Versions(InterruptedRedis(redis_url, "HGET", after=publish_the_next), kept=1)

    with pytest.raises(UnknownVersion, match=version):
        slow.load(version)
