"""Small requests of one turn of the event loop are stored together, and answered one by one."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import Terms
from app.storage.errors import StorageUnavailable
from app.storage.event_log import _SMALL, Appended, EventLog
from app.storage.ids import IdPacker
from app.storage.redis.client import open_async_redis
from calibrators import BinsTable
from tests.storage.conftest import HOUR, TTL_SECONDS

Event = tuple[int, str, int | None]
"""Hours after the first, campaign, number of the id, which says all else."""

events = st.tuples(
    st.integers(0, 1), st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 9))
)
turns = st.lists(
    st.lists(st.lists(events, min_size=1, max_size=8), min_size=1, max_size=6), max_size=3
)


def batch_of(request: Sequence[Event]) -> EventBatch:
    batch = EventBatch()
    for hour, campaign, number in request:
        event_id = None if number is None else f"e{number}"
        terms = Terms(arm=number % 2, bid=0.5) if number and number % 3 else None
        fields = {"device": f"d{number % 2}"} if number and number % 4 else None
        score = 0.5 if number is None else number / 100
        batch.add("click", HOUR + hour, campaign, score, 1.0, 0.0, event_id, terms, fields)
    return batch


def together(url: str, batches: Sequence[EventBatch]) -> list[Appended]:
    """All sent in one turn."""

    async def send() -> list[Appended]:
        async with open_async_redis(url) as client:
            log = EventLog(client, TTL_SECONDS)
            return await asyncio.gather(*map(log.append, batches))

    return asyncio.run(send())


@pytest.fixture
def one_process(redis_url) -> Iterator[Callable[[Sequence[EventBatch]], list[Appended]]]:
    """The same, of one process of the API: turn after turn over its connections."""
    with asyncio.Runner() as runner:
        client = open_async_redis(redis_url)
        log = EventLog(client, TTL_SECONDS)

        async def send(batches: Sequence[EventBatch]) -> list[Appended]:
            return await asyncio.gather(*map(log.append, batches))

        yield lambda batches: runner.run(send(batches))
        runner.run(client.aclose())


def scripts(client: redis.Redis) -> int:
    """How many the server has run so far; one that it did not know yet is sent again."""
    found = client.info("commandstats")
    known = [found[name] for name in ("cmdstat_eval", "cmdstat_evalsha") if name in found]
    return sum(each["calls"] - each["failed_calls"] for each in known)


def folded(store: BinsStore) -> tuple[BinsTable, BinsTable]:
    store.fold()
    return store.window("click", HOUR, HOUR + 1), store.window("click", HOUR + 1, HOUR + 2)


@given(st.lists(st.lists(events, max_size=8), min_size=1, max_size=4))
def test_a_joined_batch_is_that_of_all_events(requests):
    # Two of them share no id.
    own = [
        [(hour, name, None if n is None else 10 * number + n) for hour, name, n in request]
        for number, request in enumerate(requests)
    ]
    joined, of_all = EventBatch(), batch_of([event for request in own for event in request])

    for request in own:
        assert not joined.shares_ids(batch_of(request))
        joined.join(batch_of(request))

    assert (len(joined), joined.repeats) == (len(of_all), of_all.repeats)
    assert list(joined.entries()) == list(of_all.entries())
    ids = {entry.log: {*entry.ids} for entry in joined.entries() if entry.ids}
    for request in own:
        of_one = batch_of(request)
        assert of_one.ids_among(ids) == sum(len(entry.ids) for entry in of_one.entries())
        assert joined.shares_ids(of_one) == any(entry.ids for entry in of_one.entries())


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(turns)
def test_turns_store_what_their_requests_would_alone(one_process, redis_client, turns):
    store = BinsStore(redis_client, TTL_SECONDS)
    redis_client.flushall()
    for requests in turns:
        for request in requests:
            one_process([batch_of(request)])
    alone = folded(store)
    redis_client.flushall()
    known: set[Event] = set()
    for requests in turns:
        answers = one_process([batch_of(request) for request in requests])
        for answer, request in zip(answers, requests, strict=True):
            assert answer.accepted + answer.duplicates == len(request)
        sent = [event for request in requests for event in request]
        new = {event for event in sent if event[2] is not None} - known
        known |= new
        without_ids = sum(event[2] is None for event in sent)
        assert sum(answer.accepted for answer in answers) == len(new) + without_ids
        IdPacker(redis_client, fewest=1).pack()
    assert folded(store) == alone


def test_requests_of_a_turn_are_one_script_and_each_hears_of_its_own_duplicates(
    redis_url, redis_client, store
):
    first = [(0, "a", 1), (0, "b", 2), (1, "a", 3)]
    assert together(redis_url, [batch_of(first)]) == [Appended(3, 0)]
    before = scripts(redis_client)
    requests: list[list[Event]] = [
        [(0, "a", 1), (0, "a", 4), (0, "a", None)],
        [(0, "b", 5), (1, "b", 5), (0, "b", 5)],
        [(0, "b", 2), (1, "a", 3)],
        [(0, "a", None)],
    ]

    answers = together(redis_url, [batch_of(request) for request in requests])

    assert answers == [Appended(2, 1), Appended(2, 1), Appended(0, 2), Appended(1, 0)]
    assert scripts(redis_client) == before + 1
    assert store.fold() == 8


def test_what_shares_an_id_a_large_request_and_one_with_a_key_are_stored_apart(
    in_one_log, redis_client, impressions, store
):
    before = scripts(redis_client)

    async def send(log):
        small = [impressions(5), impressions(5, "e"), impressions(6, "e")]
        large = impressions(_SMALL + 1, "f")
        keyed = log.append(impressions(3), "key", "print")
        return await asyncio.gather(*map(log.append, small), log.append(large), keyed)

    answers = in_one_log(send)

    assert sum(answer.accepted for answer in answers) == 5 + 6 + _SMALL + 1 + 3
    assert scripts(redis_client) == before + 4
    assert store.fold() == 5 + 6 + _SMALL + 1 + 3


def test_a_turn_has_a_bound(redis_url, redis_client, impressions):
    before = scripts(redis_client)

    answers = together(redis_url, [impressions(100, f"{number}-") for number in range(25)])

    assert answers == [Appended(100, 0)] * 25
    assert scripts(redis_client) == before + 3


def test_who_gives_up_takes_nobody_along(in_one_log, store):
    async def send(log):
        requests = [asyncio.ensure_future(log.append(batch_of([(0, "a", n)]))) for n in range(3)]
        await asyncio.sleep(0)
        requests[0].cancel()
        return await asyncio.gather(*requests[1:])

    assert in_one_log(send) == [Appended(1, 0)] * 2
    assert store.fold() == 3


def test_a_store_that_is_away_fails_all_of_them(impressions):
    async def send() -> list[Appended | BaseException]:
        async with open_async_redis("redis://127.0.0.1:1") as client:
            log = EventLog(client, TTL_SECONDS)
            requests = [log.append(impressions(2)) for _ in range(3)]
            return await asyncio.gather(*requests, return_exceptions=True)

    assert all(isinstance(answer, StorageUnavailable) for answer in asyncio.run(send()))


def test_what_is_damaged_fails_only_who_needs_it(in_one_log, redis_client, store):
    damaged, whole = (batch_of([(0, name, 1)]) for name in "ab")
    (entry,) = damaged.entries()
    redis_client.set(entry.log.log, "no list")

    async def send(log):
        requests = map(log.append, (damaged, whole))
        return await asyncio.gather(*requests, return_exceptions=True)

    failed, stored = in_one_log(send)

    assert isinstance(failed, StorageUnavailable)
    assert "WRONGTYPE" in str(failed)
    assert stored == Appended(1, 0)
    redis_client.delete(entry.log.log)
    assert store.fold() == 1


def test_the_end_of_the_service_leaves_nobody_waiting(in_one_log, impressions):
    async def send(log):
        requests = [asyncio.ensure_future(log.append(impressions(2))) for _ in range(2)]
        await asyncio.sleep(0)
        for storing in log._storing:
            storing.cancel()
        failed = await asyncio.gather(*requests, return_exceptions=True)
        return [*failed, await log.append(impressions(2))]

    *failed, later = in_one_log(send)
    assert all(isinstance(answer, StorageUnavailable) for answer in failed)
    assert later == Appended(2, 0)


@pytest.mark.parametrize("count", [1, 20])
def test_ids_that_are_stored_by_their_names_are_found(redis_url, redis_client, count):
    """As an older version stored them: the script asks for the names, of all of a turn."""
    log = batch_of([(0, "a", 1)])
    (entry,) = log.entries()
    redis_client.sadd(entry.log.seen, *entry.ids)

    requests = [batch_of([(0, "a", number)]) for number in range(1, count + 1)]
    answers = together(redis_url, requests)

    assert answers == [Appended(0, 1)] + [Appended(1, 0)] * (count - 1)
