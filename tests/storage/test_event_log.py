"""Appending: a request is stored as a whole, and once."""

import asyncio

import pytest

from app.storage.batch import EventBatch
from app.storage.errors import IdempotencyConflict
from app.storage.event_log import LONGEST_IDEMPOTENCY_KEY, Appended
from tests.storage.conftest import HOUR
from tests.storage.contents import contents


def of_one(event_id: str | None = None, campaign: str = "a", count: float = 1.0) -> EventBatch:
    batch = EventBatch()
    batch.add("click", HOUR, campaign, 0.25, count, 1.0 - count, event_id)
    return batch


def test_events_of_many_logs_are_stored_by_one_request(append, store):
    batch = EventBatch()
    for number in range(100):
        batch.add(("click", "view")[number % 2], HOUR + number % 3, f"c{number}", 0.5, 1.0, 0.0)

    assert append(batch) == Appended(100, 0)

    assert store.fold() == 100
    assert len(store.window("click", HOUR, HOUR + 3)) == 50
    assert len(store.window("view", HOUR, HOUR + 3)) == 50


def test_without_ids_and_key_equal_requests_are_all_stored(append, store, impressions):
    assert [append(impressions(5)) for _ in range(2)] == [Appended(5, 0)] * 2
    assert store.fold() == 10


def test_a_request_of_no_events_stores_nothing(append, redis_client):
    assert append(EventBatch(), "key", "print") == Appended(0, 0)
    assert contents(redis_client) == {}


def test_the_same_request_again_is_all_duplicates_and_changes_nothing(
    append, redis_client, impressions
):
    """One key, one fingerprint: a client that saw no answer may send it again."""
    assert append(impressions(5), "key", "print") == Appended(5, 0)
    stored = contents(redis_client)

    assert append(impressions(5), "key", "print") == Appended(0, 5)

    assert contents(redis_client) == stored


def test_a_key_of_another_request_is_a_conflict_and_stores_nothing(
    append, redis_client, impressions
):
    append(impressions(5), "key", "print")
    stored = contents(redis_client)

    with pytest.raises(IdempotencyConflict, match="'key' was used for a different request"):
        append(impressions(7, "id"), "key", "other print")

    assert contents(redis_client) == stored


def test_a_known_request_stays_known_after_its_events_were_folded(append, store, impressions):
    append(impressions(5), "key", "print")
    store.fold()

    assert append(impressions(5), "key", "print") == Appended(0, 5)
    assert store.fold() == 0


@pytest.mark.parametrize("key", ["", "k" * (LONGEST_IDEMPOTENCY_KEY + 1)])
def test_an_idempotency_key_is_of_bounded_length(key, append, redis_client):
    with pytest.raises(ValueError, match=f"1 to 255 characters, not {len(key)}"):
        append(of_one(), key)

    assert contents(redis_client) == {}


def test_the_longest_idempotency_key_is_fine(append):
    key = "é" * LONGEST_IDEMPOTENCY_KEY
    assert [append(of_one(), key) for _ in range(2)] == [Appended(1, 0), Appended(0, 1)]


def test_an_event_id_counts_once_over_requests(append, store):
    assert [append(of_one("e1")) for _ in range(2)] == [Appended(1, 0), Appended(0, 1)]
    assert store.fold() == 1
    assert append(of_one("e1")) == Appended(0, 1), "the fold must not forget the id"


def test_of_a_request_that_is_half_known_the_other_half_is_stored(append, store):
    """With known and new ids mixed, and more of one log than a Lua stack holds."""
    batch, again = EventBatch(), EventBatch()
    for number in range(9000):
        if number % 3:
            batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, f"e{number}")
        again.add("click", HOUR, "a", 0.25, 1.0, 0.0, f"e{number}")

    assert append(batch) == Appended(6000, 0)
    assert append(again) == Appended(3000, 6000)

    assert store.fold() == 9000
    assert store.hour("click", HOUR).total().total_count == 9000


def test_a_request_of_known_ids_only_adds_no_block(append, redis_client, impressions):
    append(impressions(300, "e"))
    stored = contents(redis_client)

    assert append(impressions(300, "e")) == Appended(0, 300)

    assert contents(redis_client) == stored


def test_a_server_that_forgot_the_script_is_taught_it_again(append, redis_client):
    """A restarted server knows no scripts."""
    append(of_one())
    redis_client.script_flush()

    assert append(of_one()) == Appended(1, 0)


def test_of_requests_at_once_with_the_same_ids_one_stores_each_event(
    in_one_log, store, impressions
):
    """More requests than connections: the rest waits for its turn."""

    async def race(log):
        return await asyncio.gather(*(log.append(impressions(50, "e")) for _ in range(48)))

    answers = in_one_log(race)

    assert sum(answer.accepted for answer in answers) == 50
    assert all(answer.accepted + answer.duplicates == 50 for answer in answers)
    assert store.fold() == 50


def test_of_requests_at_once_with_the_same_key_one_is_stored(in_one_log, store, impressions):
    async def race(log):
        batches = [impressions(50) for _ in range(20)]
        return await asyncio.gather(*(log.append(batch, "key", "p") for batch in batches))

    answers = in_one_log(race)

    assert sorted(answer.accepted for answer in answers) == [0] * 19 + [50]
    assert store.fold() == 50
