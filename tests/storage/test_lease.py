"""Leases: one holder at a time, and a number that tells a stale one."""

import time
from threading import Barrier, Thread

import pytest
import redis

from app.storage.errors import LeaseLost, StorageUnavailable
from app.storage.keys import SHARDS
from app.storage.keys import lease as key_of
from app.storage.lease import Lease, LeaseKeeper, ShardShare
from app.storage.redis.client import open_redis

NAME = "refit"
SECONDS = 60.0


def lease(client: redis.Redis, holder: str, ttl: float = SECONDS) -> Lease:
    return Lease(client, NAME, holder, ttl)


def acquire_once_free(wanted: Lease) -> None:
    deadline = time.monotonic() + 30.0
    while not wanted.acquire():
        assert time.monotonic() < deadline, "the lease did not expire"
        time.sleep(0.005)


def test_only_one_holds_a_lease(redis_client):
    first, second = lease(redis_client, "a"), lease(redis_client, "b")
    assert (first.acquire(), second.acquire()) == (True, False)
    assert second.renew() is False

    with pytest.raises(LeaseLost, match="'refit' is not held"):
        second.token  # noqa: B018


def test_leases_of_other_names_are_free(redis_client):
    assert lease(redis_client, "a").acquire()
    assert Lease(redis_client, "other", "b", SECONDS).acquire()


def test_of_many_at_once_one_gets_it(redis_url):
    together = Barrier(8)
    got: list[bool] = []

    def acquire(holder: str) -> None:
        with open_redis(redis_url, timeout_seconds=10.0) as client:
            together.wait()
            got.append(lease(client, holder).acquire())

    threads = [Thread(target=acquire, args=(f"holder {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(got) == [False] * 7 + [True]


def test_the_number_grows_with_every_grant(redis_client):
    """Also past an expiry and a change of holder: an older number is a stale holder."""
    numbers = []
    for holder in ("a", "b", "a"):
        taken = lease(redis_client, holder)
        assert taken.acquire()
        numbers.append(taken.token.number)
        redis_client.delete(key_of(NAME))

    assert numbers == [1, 2, 3]


def test_a_renewed_lease_lives_for_another_ttl_under_the_same_token(redis_client):
    held = lease(redis_client, "a")
    held.acquire()
    token = held.token
    assert 0 < redis_client.pttl(key_of(NAME)) <= SECONDS * 1000
    redis_client.pexpire(key_of(NAME), 1000)

    assert held.renew()

    assert held.token == token
    assert redis_client.pttl(key_of(NAME)) > (SECONDS - 10) * 1000


def test_a_lease_expires_and_its_holder_learns_it_at_the_next_renewal(redis_client):
    old = lease(redis_client, "a", ttl=0.02)
    assert old.acquire()
    new = lease(redis_client, "b")

    acquire_once_free(new)

    assert old.renew() is False
    with pytest.raises(LeaseLost):
        old.token  # noqa: B018
    assert new.renew() is True


def test_a_lease_of_the_shortest_life_still_expires(redis_client):
    """A life that rounds to zero would be refused by Redis, or last for ever."""
    assert lease(redis_client, "a", ttl=0.0).acquire()
    acquire_once_free(lease(redis_client, "b"))


def test_a_stale_holder_of_the_same_name_does_not_renew_the_new_grant(redis_client):
    """A worker that starts again under its old name is another holder."""
    old, new = lease(redis_client, "a"), lease(redis_client, "a")
    old.acquire()
    redis_client.delete(key_of(NAME))
    assert new.acquire()

    assert old.renew() is False
    assert new.renew() is True


def test_a_released_lease_is_free_at_once(redis_client):
    first, second = lease(redis_client, "a"), lease(redis_client, "b")
    first.acquire()
    first.release()

    assert second.acquire()
    with pytest.raises(LeaseLost):
        first.token  # noqa: B018


def test_a_stale_holder_does_not_release_the_lease_of_another(redis_client):
    old, new = lease(redis_client, "a"), lease(redis_client, "b")
    old.acquire()
    redis_client.delete(key_of(NAME))
    new.acquire()

    old.release()
    old.release()

    assert new.renew() is True


def share(client: redis.Redis, holder: str, ttl: float = SECONDS) -> ShardShare:
    return ShardShare(client, NAME, holder, ttl)


def test_shards_are_divided_among_those_who_take_part(redis_client):
    """Whoever comes last finds all others; these find it the next time that they take."""
    several = [share(redis_client, str(number)) for number in range(3)]
    alone = several[0].take()
    for other in several:
        other.take()
    parts = [set(one.take()) for one in several]
    several[1].leave()
    several[1].leave()
    left = [set(one.take()) for one in (several[0], several[2])]

    every = set(range(SHARDS))
    assert set(alone) == every
    assert sorted(map(len, parts)) == [5, 5, 6]
    assert sorted(map(len, left)) == [8, 8]
    assert (set().union(*parts), set().union(*left)) == (every, every)


def test_no_more_take_part_than_there_are_shards(redis_client):
    several = [share(redis_client, str(number)) for number in range(SHARDS + 1)]
    for one in several:
        one.take()

    assert [len(one.take()) for one in several] == [1] * SHARDS + [0]
    several[3].leave()
    assert len(several[-1].take()) == 1


def test_the_share_of_who_is_silent_falls_to_the_others(redis_client):
    silent, alive = share(redis_client, "a"), share(redis_client, "b")
    silent.take()
    assert len(alive.take()) == SHARDS / 2

    redis_client.pexpire(key_of(f"{NAME}-0"), 1)
    deadline = time.monotonic() + 30.0
    while len(alive.take()) < SHARDS:
        assert time.monotonic() < deadline, "the place did not run out"
        time.sleep(0.005)
    assert len(silent.take()) == SHARDS / 2


def test_a_place_that_runs_out_meanwhile_has_a_share_still(redis_client, monkeypatch):
    """As of a process that stood still for as long."""
    late = share(redis_client, "a")
    monkeypatch.setattr(redis_client, "mget", lambda names: [None] * len(names))

    assert late.take() == range(SHARDS)


def test_others_are_those_who_hold_a_share(redis_client):
    first, second = share(redis_client, "a"), share(redis_client, "b")
    assert first.others() == 0

    second.take()
    assert (first.others(), second.others()) == (1, 0)
    first.take()
    assert (first.others(), second.others()) == (1, 1)
    second.leave()
    assert first.others() == 0


def test_a_renewal_that_fails_is_tried_again_soon(monkeypatch):
    """Two time-outs, each of which took some of its life, must not end a lease."""
    answers = iter([True, None, None, True, False])
    pauses: list[float] = []
    beats: list[bool] = []

    class Shaky:
        def renew(self) -> bool:
            answer = next(answers)
            if answer is None:
                raise StorageUnavailable("away")
            return answer

    keeper = LeaseKeeper(Shaky(), 30.0, lambda: beats.append(keeper.held))  # type: ignore[arg-type]

    def wait(pause: float) -> bool:
        pauses.append(pause)
        return False

    monkeypatch.setattr(keeper._stop, "wait", wait)
    keeper._keep()

    assert pauses == [10.0, 10.0, 1.0, 1.0, 10.0]
    assert beats == [True, True]
    assert not keeper.held
