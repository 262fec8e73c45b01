"""Callers that are slow, silent or gone: ended in bounded time, and nobody else notices."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from app.settings import Settings
from tests.api.raw_connection import RawConnection, chunked, closed, ends_one, get, post, raw
from tests.api.running_service import RunningService, eventually, serving

HALF_HEAD = b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Le"
HALF_BODY = post("/v1/events", b'[{"type": "impression", ', length=1000)
HALF_CHUNK = chunked("/v1/events", b"ff\r\n[")
EVENT = {"type": "outcome", "campaign": "a", "target": "click", "score": 0.5, "outcome": 1}
MANY_SCORES = b'{"target": "click", "campaign": "a", "scores": [%s]}' % b",".join(
    [b"0.5"] * 1_900_000
)


@pytest.fixture(scope="module")
def hurried(redis_url_of_module) -> Iterator[RunningService]:
    """Waits for nobody longer than three tenths of a second, once a request has begun."""
    settings = Settings(
        port=0, receive_seconds=0.3, redis_timeout_seconds=20, max_scores=2_000_000, clock="event"
    )
    with serving(settings, redis_url_of_module) as service:
        yield service


@pytest.fixture(scope="module")
def impatient(redis_url_of_module) -> Iterator[RunningService]:
    """Keeps idle connections for a quarter of a second only; the one that asks for metrics is
    never idle, or it could ask just when the service hangs up."""
    with serving(Settings(port=0, keep_alive_seconds=0.25), redis_url_of_module) as service:
        service.http.headers["Connection"] = "close"
        yield service


def asked(service: RunningService) -> list[float]:
    """A request in one piece: between two of them we may be held up for too long."""
    with raw(service) as connection:
        connection.send(post("/v1/calibrate"))
        return list(json.loads(connection.answer().body)["probabilities"])


@pytest.mark.parametrize("begun", [HALF_HEAD, HALF_BODY, HALF_CHUNK, b"P"])
def test_half_a_request_and_then_silence_is_answered_408(hurried, begun):
    with ends_one(hurried, "slow_request") as connection:
        connection.send(begun)
        problem = connection.answer().problem(408, "request-timeout")
        assert "SIROCCO_RECEIVE_SECONDS" in problem["detail"]
        assert connection.rest() == b""


@pytest.mark.parametrize(
    ("begun", "drop"), [(b"GET / HTTP/1.1\r\nX: ", b"x"), (HALF_BODY, b" "), (HALF_CHUNK, b" ")]
)
def test_a_byte_now_and_then_gains_no_time(hurried, begun, drop):
    """Slow loris: the time counts from the first byte of a request, not from the last."""
    with raw(hurried) as connection:
        connection.send(begun)
        connection.send_until_answered(drop)
        connection.answer().problem(408, "request-timeout")


def test_what_was_said_before_gains_no_time_for_the_next_request(hurried):
    with raw(hurried) as connection:
        assert connection.is_alive()
        connection.send(HALF_BODY)
        connection.answer().problem(408, "request-timeout")


def test_others_are_answered_while_many_are_slow(hurried):
    with ExitStack() as opened:
        slow = [opened.enter_context(raw(hurried)) for _ in range(60)]
        for place, connection in enumerate(slow):
            connection.send((HALF_HEAD, HALF_BODY, HALF_CHUNK)[place % 3])
        assert all(asked(hurried) == [0.5] for _ in range(50))
        for connection in slow:
            connection.answer().problem(408, "request-timeout")


def test_nothing_of_half_a_request_is_stored(hurried):
    hurried.store.flushall()
    event = json.dumps([EVENT | {"occurred_at": 1_767_225_600}]).encode()

    with raw(hurried) as connection:
        connection.send(post("/v1/events", event, length=len(event) + 1))
        connection.answer().problem(408, "request-timeout")

    assert hurried.stored_keys == []


def test_a_request_that_comes_in_pieces_is_answered(shared_service):
    with raw(shared_service) as connection:
        for byte in post("/v1/calibrate"):
            connection.send(bytes([byte]))
        assert json.loads(connection.answer().body)["probabilities"] == [0.5]


def test_a_request_that_takes_long_to_answer_is_not_cut(hurried):
    """The store answers after several times the seconds that a request has to arrive."""
    hurried.store.flushall()
    event = json.dumps([EVENT | {"occurred_at": 1_767_225_600}]).encode()

    with raw(hurried) as connection:
        hurried.store.execute_command("CLIENT", "PAUSE", 800, "ALL")
        connection.send(post("/v1/events", event))
        assert json.loads(connection.answer().body)["accepted"] == 1
        assert connection.is_alive()


@pytest.mark.parametrize("last", [HALF_HEAD, HALF_BODY, chunked("/v1/events", b"no size\r\n")])
def test_a_request_that_waits_for_the_answer_before_its_own_is_not_cut(hurried, last):
    """Nothing overtakes an answer: the last request is refused when its turn has come."""
    hurried.store.flushall()
    event = json.dumps([EVENT | {"occurred_at": 1_767_225_600}]).encode()

    with raw(hurried) as connection:
        hurried.store.execute_command("CLIENT", "PAUSE", 800, "ALL")
        connection.send(post("/v1/events", event) + last)
        assert json.loads(connection.answer().body)["accepted"] == 1
        connection.answer().problem(408, "request-timeout")


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["Connection: keep-alive", "Connection: close"])
def test_a_caller_that_does_not_read_its_answer_is_dropped(hurried, wish):
    """Also when the connection is being closed and only waits for its last bytes to go."""

    def is_dropped() -> bool:
        """Unless the machine is too busy to bring so large a request in time."""
        before = closed(hurried, "slow_reader"), closed(hurried, "slow_request")
        with raw(hurried, receive_buffer=4096) as connection, suppress(ConnectionError):
            connection.send(post("/v1/calibrate", MANY_SCORES, wish))
            eventually(
                lambda: (
                    closed(hurried, "slow_reader") > before[0]
                    or closed(hurried, "slow_request") > before[1]
                )
            )
            assert asked(hurried) == [0.5]
            assert len(connection.rest()) < len(MANY_SCORES)
        return closed(hurried, "slow_reader") == before[0] + 1

    eventually(is_dropped)


@pytest.mark.slow
def test_a_caller_that_reads_slowly_gets_its_whole_answer(hurried):
    """As long as it reads on, however long that takes."""

    def is_whole() -> bool:
        """Unless the machine holds us up between two reads."""
        received = 0
        with raw(hurried, receive_buffer=65536) as connection, suppress(ConnectionError):
            connection.send(post("/v1/calibrate", MANY_SCORES, "Connection: close"))
            while data := connection.read(8192):
                received += len(data)
                assert asked(hurried) == [0.5]
        return received > 4 * 1_900_000

    eventually(is_whole)


def test_an_answer_before_the_end_of_the_body_is_the_only_one(hurried):
    """The length alone is refused; the body that does not come is not waited for for ever."""
    with raw(hurried) as connection:
        connection.send(post("/v1/events", b"[", length=10**12))
        assert connection.answer().status == 413
        assert connection.rest() == b""


def test_a_connection_goes_on_after_a_body_that_was_refused_at_sight(shared_service):
    """What is left of the body is thrown away, although reading was paused when it came."""
    with raw(shared_service) as connection:
        connection.send(post("/v1/events", b" " * 9_000_000))
        assert connection.answer().status == 413
        assert connection.is_alive()


@pytest.mark.parametrize("begun", [b"", get("/healthz"), b"\r\n\r\n"])
def test_an_idle_connection_is_closed_without_a_word(impatient, begun):
    """Whether it was ever used or not; blank lines are no request."""
    with ends_one(impatient, "idle") as connection:
        connection.send(begun)
        if b"GET" in begun:
            connection.answer()
        assert connection.rest() == b""


def test_blank_lines_keep_no_connection_open(impatient):
    with raw(impatient) as connection:
        connection.send_until_answered(b"\r\n")
        assert connection.rest() == b""


def test_a_connection_in_use_is_not_idle(impatient):
    def is_kept() -> bool:
        """Unless the machine holds us up between two requests."""
        with raw(impatient) as connection, suppress(ConnectionError, AssertionError):
            return all(connection.is_alive() for _ in range(300))
        return False

    eventually(is_kept)


@pytest.mark.parametrize("begun", [b"", HALF_HEAD, HALF_BODY, HALF_CHUNK, get("/openapi.json")])
@pytest.mark.parametrize("leave", [RawConnection.close, RawConnection.drop])
def test_a_dropped_connection_leaves_nothing_behind(hurried, caplog, begun, leave):
    """Nothing stored, nothing logged, no fault of ours counted, no connection kept."""
    hurried.store.flushall()
    caplog.set_level(logging.WARNING)

    for _ in range(20):
        connection = RawConnection(hurried)
        connection.send(begun)
        leave(connection)

    eventually(lambda: hurried.metric("sirocco_connections") == 1)
    requests = hurried.metrics("sirocco_requests_total")
    assert not [labels for labels in requests if ("code", "500") in labels]
    assert caplog.records == []
    assert hurried.stored_keys == []


def test_a_body_that_ends_too_early_is_not_stored(hurried, caplog):
    hurried.store.flushall()
    caplog.set_level(logging.WARNING)

    with raw(hurried) as connection:
        connection.send(HALF_BODY)
        connection.send_no_more()
        assert connection.rest() == b""

    assert hurried.stored_keys == []
    assert caplog.records == []


def test_a_thousand_idle_connections_change_no_answer(hurried):
    with ExitStack() as opened:
        for _ in range(1000):
            opened.enter_context(raw(hurried))
        eventually(lambda: (hurried.metric("sirocco_connections") or 0) > 1000)
        assert all(asked(hurried) == [0.5] for _ in range(100))

    eventually(lambda: hurried.metric("sirocco_connections") == 1)
