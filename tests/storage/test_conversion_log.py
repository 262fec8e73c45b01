"""Conversions are handed over exactly once, whoever dies or comes in between."""

import logging

import pytest

from app.storage import keys
from app.storage.conversions import ConversionLog
from app.storage.keys import TargetHour
from tests.storage.clicks import AT, RULES, append_by, conversion, of
from tests.storage.contents import contents


@pytest.fixture
def send(redis_url):
    """Appends conversions of these times, a request each."""

    def run(*times):
        for at in times:
            append_by(redis_url, RULES, of(conversion(at)))

    return run


@pytest.fixture
def log(redis_client) -> ConversionLog:
    return ConversionLog(redis_client)


def times(read):
    return [one.occurred_at for one in read[1]]


def test_logs_that_hold_conversions_are_pending(send, log):
    assert not log.pending()
    send(AT, AT + 7200)

    places = log.pending()

    hours = [int(at // 3600) for at in (AT, AT + 7200)]
    assert places == {TargetHour(7, "conversion", hour): 1 for hour in hours}
    assert [times(log.read(place)) for place in places] == [[AT], [AT + 7200]]


def test_what_is_read_and_dropped_is_gone_once(send, log, redis_client):
    send(AT, AT + 1)
    (place,) = log.pending()
    mark, conversions = log.read(place)
    send(AT + 2)

    assert log.read(place)[1][:2] == conversions
    assert log.drop(place, mark)
    assert not log.drop(place, mark)

    assert times(log.read(place)) == [AT + 2]
    assert log.drop(place, log.read(place)[0])
    assert not log.pending()
    assert not list(redis_client.scan_iter("*:conversions:*"))


def test_an_empty_log_is_dropped_by_nobody_and_closed_by_a_read(send, log, redis_client):
    send(AT)
    (place,) = log.pending()
    redis_client.delete(place.conversions)

    mark, conversions = log.read(place)

    assert (mark.blocks, conversions) == (0, [])
    assert not log.drop(place, mark)
    assert not log.pending()


def test_a_log_that_began_anew_is_not_dropped(send, log, redis_client):
    send(AT, AT + 1)
    (place,) = log.pending()
    mark, _ = log.read(place)
    redis_client.delete(place.conversions)
    send(AT + 2, AT + 3)

    assert not log.drop(place, mark)
    assert times(log.read(place)) == [AT + 2, AT + 3]


def test_no_more_than_so_many_bytes_are_read_at_once(send, log, redis_client):
    send(*(AT + number for number in range(40)))
    (place,) = log.pending()
    small = ConversionLog(redis_client, bytes_at_once=1)

    mark, first = small.read(place)

    assert (mark.blocks, len(first)) == (32, 32)
    assert small.drop(place, mark)
    assert times(log.read(place)) == [AT + number for number in range(32, 40)]


def test_a_damaged_block_is_set_aside_and_the_rest_goes_on(send, log, redis_client, caplog):
    send(AT, AT + 1)
    (place,) = log.pending()
    redis_client.lset(place.conversions, 0, b"damaged")

    with caplog.at_level(logging.ERROR):
        mark, conversions = log.read(place)
    before = contents(redis_client)

    assert [one.occurred_at for one in conversions] == [AT + 1]
    assert "set aside" in caplog.text
    assert redis_client.llen(keys.damaged(place.shard)) == 0
    assert log.drop(place, mark)
    assert not log.drop(place, mark)
    assert redis_client.lrange(keys.damaged(place.shard), 0, -1) == [b"damaged"]
    assert contents(redis_client) != before
