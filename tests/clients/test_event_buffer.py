"""`EventBuffer` against the real service: what was taken is stored once, or told to the caller."""

import gzip
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from sirocco_client import Batch, BufferFull, Closed, EventBuffer, Rejection, Sirocco

from tests.api.running_service import IDLE_SECONDS, eventually, serving
from tests.clients.faulty_proxy import answers, cuts_short, drops, loses_the_answer, passes, stalls
from tests.clients.sent_events import eager, put_outcomes, stored
from tests.reserved_ports import reserved_port


@contextmanager
def buffer_of(url: str, **options: Any) -> Iterator[EventBuffer]:
    """A buffer that is given up at the end, whatever waits."""
    with Sirocco(url, timeout=20.0) as sirocco:
        buffer = sirocco.events(eager(**options))
        yield buffer
        buffer.close(0.0)


def test_everything_is_stored_and_counted(service):
    """In batches, by a flush that waits for the answers."""
    with buffer_of(service.url, batch_events=100) as events:
        assert all(put_outcomes(events, 250))
        assert events.flush(20.0)
        counts = events.counts

    assert stored(service) == 250
    assert (counts.taken, counts.accepted, counts.waiting, counts.waiting_bytes) == (250, 250, 0, 0)


def test_a_full_batch_leaves_by_itself(service):
    """Nobody flushes, and the rest lingers."""
    with buffer_of(service.url, batch_events=100, linger_seconds=3600.0) as events:
        put_outcomes(events, 150)
        eventually(lambda: events.counts.accepted == 100)
        assert events.counts.waiting == 50


def test_a_few_events_leave_after_lingering(service):
    """Nobody flushes, and no batch gets full."""
    with buffer_of(service.url, linger_seconds=0.01) as events:
        put_outcomes(events, 3)
        eventually(lambda: events.counts.accepted == 3)


def test_closing_sends_what_waits(service):
    """Leaving the block is a flush too; afterwards nothing is taken any more."""
    with Sirocco(service.url, timeout=20.0) as sirocco, sirocco.events() as events:
        put_outcomes(events, 5)

    assert stored(service) == 5
    assert events.close() == []
    with pytest.raises(Closed):
        put_outcomes(events, 1)
    with pytest.raises(Closed):
        events.resend([])


def test_many_threads_may_share_a_buffer(service):
    """Nothing is lost between them."""
    with buffer_of(service.url, batch_events=50, linger_seconds=0.001) as events:
        threads = [threading.Thread(target=put_outcomes, args=(events, 200)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert events.flush(20.0)

    assert stored(service) == 1000


@pytest.mark.parametrize("packed", [True, False])
def test_a_lost_answer_does_not_count_twice(service, proxy, packed):
    """The service stored the batch and nobody heard: it comes again under its key."""
    proxy.faults.extend([loses_the_answer, cuts_short, answers(200, b"<html>"), drops])
    with buffer_of(proxy.url, gzip=packed) as events:
        put_outcomes(events, 10)
        assert events.flush(20.0)
        counts = events.counts

    assert stored(service) == 10
    assert (counts.accepted, counts.duplicates, counts.retries) == (0, 10, 4)
    assert len({(seen.headers["Idempotency-Key"], seen.body) for seen in proxy.seen}) == 1
    unpacked = gzip.decompress(proxy.seen[0].body) if packed else proxy.seen[0].body
    assert len(unpacked.splitlines()) == 10


def test_events_outlive_an_outage(settings, redis_url, monkeypatch):
    """The service comes back at the same address; nothing is lost or counted twice."""
    monkeypatch.setattr(IDLE_SECONDS, 0.1)
    placed = settings.model_copy(update={"port": reserved_port()})
    with buffer_of(f"http://127.0.0.1:{placed.port}", batch_events=10) as events:
        put_outcomes(events, 25)
        eventually(lambda: events.counts.retries > 3)
        assert (events.counts.accepted, events.counts.waiting) == (0, 25)

        with serving(placed, redis_url) as service:
            assert events.flush(20.0)
            assert stored(service) == 25


def test_retry_after_is_heeded(service, proxy):
    """The next try comes no sooner, unless somebody flushes."""
    proxy.faults.append(answers(503, Retry_After="3600"))
    with buffer_of(proxy.url, batch_events=1) as events:
        put_outcomes(events, 1)
        eventually(lambda: len(proxy.seen) == 1)
        assert events.counts.waiting == 1
        eventually(lambda: events.flush(0.05))

    assert stored(service) == 1


def test_rejected_events_come_back_with_their_reasons(service):
    """The good of the batch are stored."""
    told: list[Rejection] = []
    with buffer_of(service.url, on_rejected=told.extend) as events:
        put_outcomes(events, 2)
        events.outcome("shoes", "view", 0.5, 1)
        events.outcome("hats", "click", 0.5, 1, occurred_at=1e9)
        assert events.flush(20.0)
        counts = events.counts

    assert (counts.accepted, counts.rejected, counts.waiting) == (2, 2, 0)
    assert [(one.event["campaign"], one.event["target"]) for one in told] == [
        ("shoes", "view"),
        ("hats", "click"),
    ]
    assert told[0].error.startswith('target = "view": ')
    assert told[1].error.startswith("occurred_at = ")


def test_rejections_that_nobody_asked_for_are_logged(service, caplog):
    """How many, and why the first."""
    with buffer_of(service.url) as events:
        events.outcome("shoes", "view", 0.5, 1)
        assert events.flush(20.0)

    assert '1 events rejected; the first: target = "view"' in caplog.text


def test_a_batch_refused_whole_comes_back_whole(proxy):
    """To send it again would be of no use, and nothing is lost in silence."""
    told: list[Rejection] = []
    proxy.always = answers(403, b'{"detail": "no entry"}')
    with buffer_of(proxy.url, on_rejected=told.extend) as events:
        put_outcomes(events, 3)
        assert events.flush(20.0)

    assert [one.error for one in told] == ["status-403: no entry"] * 3


def test_a_batch_of_broken_events_alone_comes_back_with_each_reason(service):
    """The service's 422 lists them."""
    told: list[Rejection] = []
    with buffer_of(service.url, on_rejected=told.extend) as events:
        events.put(b'{"type":"outcome"}')
        events.put(b'{"type":"view"}')
        assert events.flush(20.0)

    assert [one.event["type"] for one in told] == ["outcome", "view"]
    assert "campaign" in told[0].error


def test_a_smaller_service_gets_smaller_batches(settings, redis_url):
    """It takes ten events at most: batches are halved until they fit."""
    small = settings.model_copy(update={"max_events": 10})
    with serving(small, redis_url) as service, buffer_of(service.url) as events:
        put_outcomes(events, 33)
        assert events.flush(20.0)

        assert stored(service) == 33
        assert events.counts.accepted == 33


def test_a_full_buffer_says_so(proxy):
    """And takes nothing more."""
    proxy.always = stalls
    with buffer_of(proxy.url, most_events=3) as events:
        put_outcomes(events, 3)
        with pytest.raises(BufferFull) as full:
            put_outcomes(events, 1)

        assert full.value.waiting == events.counts.waiting == 3
        assert full.value.waiting_bytes == events.counts.waiting_bytes
        proxy.released.set()


def test_a_full_buffer_may_drop_and_count(proxy):
    """The newest, which nobody was promised."""
    proxy.always = stalls
    with buffer_of(proxy.url, most_events=3, when_full="drop") as events:
        assert put_outcomes(events, 5) == [True, True, True, False, False]
        assert (events.counts.taken, events.counts.dropped) == (3, 2)
        proxy.released.set()


def test_a_full_buffer_may_wait_for_room(service):
    """Each event waits until others are stored."""
    with buffer_of(service.url, most_events=2, batch_events=1, when_full="block") as events:
        assert all(put_outcomes(events, 20))
        assert events.flush(20.0)

    assert stored(service) == 20


def test_waiting_for_room_ends(proxy):
    """When none comes within the time, and when the buffer is closed meanwhile."""
    proxy.always = stalls
    with buffer_of(proxy.url, most_events=1, when_full="block", block_seconds=0.01) as events:
        put_outcomes(events, 1)
        with pytest.raises(BufferFull):
            put_outcomes(events, 1)
        proxy.released.set()


def test_closing_ends_the_wait_for_room(proxy):
    """Whoever waits then hears that it is closed."""
    proxy.always = stalls
    heard: list[Exception] = []
    with buffer_of(proxy.url, most_events=1, when_full="block", block_seconds=3600.0) as events:
        put_outcomes(events, 1)

        def wait() -> None:
            try:
                put_outcomes(events, 1)
            except Closed as closed:
                heard.append(closed)

        waiting = threading.Thread(target=wait)
        waiting.start()
        events.close(0.0)
        waiting.join()
        proxy.released.set()

    assert len(heard) == 1


def test_what_cannot_be_sent_is_given_back(service, proxy):
    """All of it, in order, under the keys that make it safe to send again: also what is on its
    way, of which nobody knows whether it arrived."""
    told: list[Batch] = []
    proxy.always = loses_the_answer
    with Sirocco(proxy.url, timeout=20.0) as sirocco:
        events = sirocco.events(eager(batch_events=4, on_unsent=told.extend))
        put_outcomes(events, 10)
        eventually(lambda: events.counts.retries > 0)
        unsent = events.close(0.0)
        counts = events.counts

    assert told == unsent
    assert [len(batch) for batch in unsent] == [4, 4, 2]
    assert (counts.taken, counts.unsent, counts.waiting) == (10, 10, 0)
    with buffer_of(service.url) as other:
        other.resend(unsent)
        assert other.flush(20.0)
        assert (other.counts.accepted, other.counts.duplicates) == (6, 4)
    assert stored(service) == 10


def test_what_cannot_be_sent_is_at_least_logged(proxy, caplog):
    """Nobody took what close returned and nobody asked to be told."""
    proxy.always = answers(503)
    with Sirocco(proxy.url, timeout=20.0) as sirocco:
        events = sirocco.events(eager())
        put_outcomes(events, 2)
        with caplog.at_level(logging.ERROR):
            events.close(0.0)

    assert "2 events could not be sent" in caplog.text


def test_who_is_interrupted_while_closing_is_told_what_waits(proxy, monkeypatch):
    told: list[Batch] = []
    proxy.always = answers(503)
    with Sirocco(proxy.url, timeout=20.0) as sirocco:
        events = sirocco.events(eager(on_unsent=told.extend))
        put_outcomes(events, 3)
        monkeypatch.setattr(events, "flush", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            events.close()

    assert sum(map(len, told)) == events.counts.unsent == 3


def fail(told: object) -> None:
    """A callback with a bug."""
    raise RuntimeError("of the caller")


def test_errors_of_on_rejected_stop_nothing(service, caplog):
    """They are logged, and later events are sent."""
    with buffer_of(service.url, on_rejected=fail) as events:
        events.outcome("a", "view", 0.5, 1)
        put_outcomes(events, 1)
        assert events.flush(20.0)

    assert stored(service) == 1
    eventually(lambda: "on_rejected failed with 1 events" in caplog.text)


def test_errors_of_on_unsent_stop_nothing(proxy, caplog):
    """What could not be sent is returned all the same."""
    proxy.always = answers(503)
    with Sirocco(proxy.url, timeout=20.0) as sirocco:
        events = sirocco.events(eager(on_unsent=fail))
        put_outcomes(events, 2)

        assert [len(batch) for batch in events.close(0.0)] == [2]
    assert "on_unsent failed with 1 batches" in caplog.text


def test_a_fault_of_ours_does_not_end_the_sending(service, monkeypatch):
    """The thread goes on whatever a try raises."""
    with buffer_of(service.url) as events:
        ask, failures = events._connections.ask, iter([RuntimeError("a bug")])

        def failing(*arguments: Any) -> Any:
            for failure in failures:
                raise failure
            return ask(*arguments)

        monkeypatch.setattr(events._connections, "ask", failing)
        put_outcomes(events, 1)
        assert events.flush(20.0)

    assert stored(service) == 1


def test_a_flush_that_takes_too_long_says_so(proxy):
    """And what waits keeps waiting."""
    proxy.always = stalls
    with buffer_of(proxy.url) as events:
        put_outcomes(events, 1)
        assert not events.flush(0.01)
        assert events.counts.waiting == 1
        proxy.released.set()


def test_an_answer_after_closing_changes_nothing(service, proxy):
    """The batch was given back already, and is not settled a second time."""
    done = threading.Event()

    def slow(*arguments: Any) -> None:
        proxy.released.wait()
        passes(*arguments)
        done.set()

    proxy.always = slow
    with Sirocco(proxy.url, timeout=20.0) as sirocco:
        events = sirocco.events(eager(batch_events=1))
        put_outcomes(events, 1)
        eventually(lambda: len(proxy.seen) == 1)
        unsent = events.close(0.0)
        proxy.released.set()
        done.wait(60)
        assert events._thread is not None
        events._thread.join()

    assert len(unsent) == 1
    assert (events.counts.unsent, events.counts.accepted, events.counts.waiting) == (1, 0, 0)
