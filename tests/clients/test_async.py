"""The clients for asyncio, against the real service."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import pytest
from sirocco_client import (
    AsyncEventBuffer,
    AsyncSirocco,
    BadInput,
    Batch,
    BufferFull,
    Closed,
    TimedOut,
    Unavailable,
)

from tests.clients.faulty_proxy import answers, drops, loses_the_answer, stalls, trickles
from tests.clients.sent_events import eager, put_outcomes, stored
from tests.reserved_ports import reserved_port

Result = TypeVar("Result")


def with_client(url: str, act: Callable[[AsyncSirocco], Awaitable[Result]], **options: Any) -> Any:
    """What comes of it inside an event loop."""

    async def run() -> Result:
        async with AsyncSirocco(url, **{"timeout": 20.0, **options}) as sirocco:
            return await act(sirocco)

    return asyncio.run(run())


def with_buffer(
    url: str, act: Callable[[AsyncEventBuffer], Awaitable[Result]], **options: Any
) -> Any:
    """The same with a buffer that is given up at the end."""

    async def run(sirocco: AsyncSirocco) -> Result:
        events = sirocco.events(eager(**options))
        try:
            return await act(events)
        finally:
            await events.close(0.0)

    return with_client(url, run)


def test_a_closed_client_says_so():
    async def nothing(sirocco: AsyncSirocco) -> AsyncSirocco:
        return sirocco

    sirocco = with_client("http://127.0.0.1:9", nothing)
    with pytest.raises(Closed, match="the client is closed"):
        asyncio.run(sirocco.calibrate("click", "shoes", [0.1]))


@pytest.mark.parametrize("binary", [True, False, None])
def test_many_calls_at_a_time_give_the_same_as_the_atlas(lasting, published, atlas, binary):
    """To the last bit, each its own answer."""
    scores = np.linspace(0.0, 1.0, 40)

    async def ask(sirocco: AsyncSirocco) -> Any:
        names = ("shoes", "hats", "other") * 10
        return await asyncio.gather(
            *(sirocco.calibrate("click", name, scores, explain=True) for name in names)
        )

    found = with_client(lasting.url, ask, binary=binary, timeout=20.0)

    for answer, name in zip(found, ("shoes", "hats", "other") * 10, strict=True):
        assert answer.probabilities.tolist() == atlas([name] * 40, scores).tolist()
        assert answer.levels == (atlas.level(name),) * 40


def test_without_a_service():
    """A typed error, or scores that are marked as such."""
    url = f"http://127.0.0.1:{reserved_port()}"

    def ask(sirocco: AsyncSirocco) -> Any:
        return sirocco.calibrate("click", "a", [0.5])

    with pytest.raises(Unavailable):
        with_client(url, ask)
    assert with_client(url, ask, fallback="raw").is_raw


@pytest.mark.parametrize("fault", [stalls, trickles])
def test_the_deadline_holds_for_the_whole_call(proxy, fault):
    """Slow or byte by byte."""
    proxy.always = fault
    with pytest.raises(TimedOut):
        with_client(proxy.url, lambda sirocco: sirocco.calibrate("click", "a", [0.5]), timeout=0.1)


def test_what_may_pass_is_tried_again(published, proxy):
    """Within the deadline."""
    proxy.faults.extend([answers(503), drops])

    answer = with_client(
        proxy.url, lambda sirocco: sirocco.calibrate("click", "hats", [0.5]), timeout=20.0
    )

    assert answer.probabilities.tolist() == [0.25]


def test_events_are_stored_and_a_lost_answer_counts_once(service, proxy):
    """The batch comes again under its key."""
    proxy.faults.extend([loses_the_answer, drops, answers(503)])

    async def send(events: AsyncEventBuffer) -> Any:
        put_outcomes(events, 25)
        assert await events.flush(20.0)
        return events.counts

    counts = with_buffer(proxy.url, send, batch_events=10)

    assert stored(service) == 25
    assert (counts.accepted, counts.duplicates, counts.retries) == (15, 10, 3)


def test_a_batch_leaves_after_lingering_or_when_full(service):
    """Nobody flushes."""

    async def send(events: AsyncEventBuffer) -> Any:
        put_outcomes(events, 12)
        while events.counts.accepted < 12:
            await asyncio.sleep(0.001)
        return events.counts

    assert with_buffer(service.url, send, batch_events=10, linger_seconds=0.01).accepted == 12


def test_leaving_the_block_sends_what_waits(service):
    """And nothing is taken afterwards."""

    async def send(sirocco: AsyncSirocco) -> None:
        async with sirocco.events() as events:
            put_outcomes(events, 5)
        assert await events.close() == []
        with pytest.raises(Closed):
            put_outcomes(events, 1)

    with_client(service.url, send)

    assert stored(service) == 5


def test_a_full_buffer_says_so_or_drops(proxy):
    """It never waits by itself."""
    proxy.always = stalls

    async def fill(events: AsyncEventBuffer) -> Any:
        return put_outcomes(events, 5), events.counts.dropped

    assert with_buffer(proxy.url, fill, most_events=3, when_full="drop") == (
        [True, True, True, False, False],
        2,
    )
    with pytest.raises(BufferFull):
        with_buffer(proxy.url, fill, most_events=3)
    with pytest.raises(BadInput, match="room"):
        with_buffer(proxy.url, fill, when_full="block")


def test_room_can_be_waited_for(service, proxy):
    """Until events are stored, or for so long."""

    async def send(events: AsyncEventBuffer) -> Any:
        for _ in range(20):
            assert await events.room(20.0)
            put_outcomes(events, 1)
        assert await events.flush(20.0)
        proxy.always = stalls
        put_outcomes(events, 4)
        return await events.room(0.01)

    assert with_buffer(proxy.url, send, most_events=4, batch_events=2) is False
    assert stored(service) == 20


def test_what_cannot_be_sent_is_given_back(service, proxy):
    """Under keys that make it safe to send again."""
    told: list[Batch] = []
    proxy.always = loses_the_answer

    async def give_up(sirocco: AsyncSirocco) -> Any:
        events = sirocco.events(eager(batch_events=4, on_unsent=told.extend))
        put_outcomes(events, 10)
        while not events.counts.retries:
            await asyncio.sleep(0.001)
        return await events.close(0.0)

    async def send_again(events: AsyncEventBuffer) -> Any:
        events.resend(told)
        assert await events.flush(20.0)
        return events.counts

    unsent = with_client(proxy.url, give_up)
    counts = with_buffer(service.url, send_again)

    assert unsent == told
    assert (counts.accepted, counts.duplicates) == (6, 4)
    assert stored(service) == 10


@pytest.mark.parametrize("closing", [True, False])
def test_who_ends_before_it_is_closed_is_told_what_waits(proxy, closing):
    told: list[Batch] = []
    proxy.always = answers(503)

    async def end_early(sirocco: AsyncSirocco) -> Any:
        events = sirocco.events(eager(on_unsent=told.extend))
        put_outcomes(events, 3)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await (events.close(60.0) if closing else asyncio.sleep(60.0))

    with_client(proxy.url, end_early)

    assert sum(map(len, told)) == 3


def test_a_fault_of_ours_does_not_end_the_sending(service, monkeypatch):
    """The task goes on whatever a try raises."""

    async def send(events: AsyncEventBuffer) -> Any:
        ask, failures = events._connections.ask, iter([RuntimeError("a bug")])

        async def failing(*arguments: Any) -> Any:
            for failure in failures:
                raise failure
            return await ask(*arguments)

        monkeypatch.setattr(events._connections, "ask", failing)
        put_outcomes(events, 1)
        return await events.flush(20.0)

    assert with_buffer(service.url, send)
    assert stored(service) == 1


def test_a_cancelled_call_is_over(published, proxy):
    """And the client can be used again."""
    proxy.faults.append(stalls)

    async def ask(sirocco: AsyncSirocco) -> Any:
        call = asyncio.ensure_future(sirocco.calibrate("click", "hats", [0.5]))
        while not proxy.seen:
            await asyncio.sleep(0.001)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await sirocco.calibrate("click", "hats", [0.5])

    assert with_client(proxy.url, ask, timeout=20.0).probabilities.tolist() == [0.25]
