"""The outbox: bounded, in order, and every event accounted for."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sirocco_client import BadInput, Batch, BufferFull, Buffering
from sirocco_client.event_queue import Delivered, EventQueue, RetryLater, delivery_result
from sirocco_client.requests import HttpResponse

LINGER = Buffering(batch_events=3, linger_seconds=2.0)

steps = st.lists(
    st.sampled_from(["put", "put", "put", "send", "halve", "give up", "resend"]), max_size=60
)


def filled(buffering: Buffering, *lines: bytes) -> EventQueue:
    outbox = EventQueue(buffering)
    for line in lines:
        assert outbox.fits(line)
        outbox.put(line, 0.0)
    return outbox


@given(steps, st.integers(1, 4), st.integers(1, 8))
def test_every_event_is_accounted_for(todo, batch_events, most):
    """What was taken is accepted, unsent or waiting, whatever happens; nothing twice."""
    outbox = EventQueue(Buffering(batch_events=batch_events, most_events=most))
    numbers, taken, accepted, unsent = count(), 0, [], []
    for step in todo:
        line = b"%d" % next(numbers)
        if step == "put" and outbox.fits(line):
            outbox.put(line, 0.0)
            taken += 1
        elif step in ("send", "halve") and outbox.due_in(0.0, at_once=True) is not None:
            batch = outbox.next_batch(0.0)
            if step == "halve" and len(batch) > 1:
                outbox.put_back(batch.halves())
                continue
            outbox.finish(batch, Delivered(len(batch), 0, ()))
            accepted += batch.lines
        elif step == "give up":
            unsent += outbox.give_up()
        elif step == "resend" and unsent and len(unsent[0]) + outbox.counts.waiting <= most:
            outbox.put_batches([unsent[0]])
            taken += len(unsent.pop(0))
        counts = outbox.counts
        given_up = [line for batch in unsent for line in batch.lines]
        assert counts.waiting <= most
        assert counts.taken == taken
        assert counts.accepted + counts.waiting + counts.unsent == taken
        assert len(set(accepted)) == len(accepted)
        assert not set(given_up) & set(accepted)


def test_events_leave_in_the_order_in_which_they_came():
    """Batches of the size asked for, then the rest; also what is sent again in halves."""
    outbox = filled(LINGER, *(b"%d" % n for n in range(7)))
    outbox.put_back(outbox.next_batch(0.0).halves())

    batches = [outbox.next_batch(0.0).lines for _ in range(4)]

    assert [len(lines) for lines in batches] == [1, 2, 3, 1]
    assert b"".join(b"".join(lines) for lines in batches) == b"0123456"


def test_large_events_make_small_batches():
    """No batch is larger than the service takes, unless a single event is."""
    line = b"x" * (3 * 1024 * 1024)
    outbox = filled(Buffering(), line, line)

    assert [len(outbox.next_batch(0.0)), len(outbox.next_batch(0.0))] == [1, 1]


@pytest.mark.parametrize(
    "buffering", [Buffering(most_events=2), Buffering(most_bytes=6)], ids=["events", "bytes"]
)
def test_what_is_on_its_way_takes_room_until_it_settles(buffering):
    """Or memory would not be bounded."""
    outbox = filled(buffering, b"abc", b"def")
    batch = outbox.next_batch(0.0)
    assert not outbox.fits(b"ghi")

    outbox.finish(batch, Delivered(2, 0, ()))

    assert outbox.fits(b"ghi")
    assert outbox.counts.waiting_bytes == 0


def test_an_event_that_can_never_fit_is_refused():
    """To wait for room would be for ever."""
    with pytest.raises(BadInput, match="must have at most 6 bytes"):
        EventQueue(Buffering(most_bytes=6)).fits(b"1234567")


def test_batches_taken_back_keep_key_and_place():
    """What was there before leaves before; there must be room for all of them."""
    outbox = filled(Buffering(most_events=3), b"first")
    returned = Batch([b"a", b"b"])
    outbox.put_batches([returned])

    assert outbox.next_batch(0.0).lines == [b"first"]
    assert outbox.next_batch(0.0) is returned
    with pytest.raises(BufferFull):
        outbox.put_batches([returned])


@pytest.mark.parametrize(
    "options",
    [
        {"batch_events": 0},
        {"most_events": 0},
        {"most_bytes": 0},
        {"timeout": 0.0},
        {"when_full": "explode"},
    ],
)
def test_options_that_mean_nothing_are_refused(options):
    """By the name of the option."""
    with pytest.raises(BadInput, match=next(iter(options))):
        Buffering(**options)  # type: ignore[arg-type]


def test_a_batch_is_the_same_bytes_every_time():
    """The service compares them under the key, packed or not."""
    batch = Batch([b'{"a":1}', b'{"b":2}'])

    assert batch.request(packed=True) == batch.request(packed=True)
    assert batch.request(packed=False).body == b'{"a":1}\n{"b":2}'
    assert batch.events == [{"a": 1}, {"b": 2}]
    assert batch.key != Batch(batch.lines).key


@pytest.mark.parametrize("status", [200, 422, 503])
@pytest.mark.parametrize("body", [b'{"rejected": [], "rejected_total": Infinity}', b"[" * 100_000])
def test_no_answer_ends_the_sending(status, body):
    """What cannot be read is sent again, or handed back: whoever sends must outlive it."""
    batch = Batch([b"1", b"2"])

    found = delivery_result(HttpResponse(status, {}, body), batch)

    if status == 422:
        assert isinstance(found, Delivered)
        assert [one.event for one in found.rejections] == batch.events
    else:
        assert isinstance(found, RetryLater)
