"""Bounds on connections, heads and pipelines; requests that are no HTTP."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from app.api.server.protocol import MOST_HEAD_BYTES, MOST_HEADERS, MOST_PIPELINED
from app.settings import Settings
from tests.api.raw_connection import (
    QUESTION,
    RawConnection,
    chunked,
    closed,
    ends_one,
    get,
    post,
    raw,
)
from tests.api.running_service import RunningService, eventually, serving

MOST_CONNECTIONS = 5
OF_REQUEST = len(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")


@pytest.fixture(scope="module")
def narrow(redis_url_of_module) -> Iterator[RunningService]:
    """Takes five connections, one of which is that of its `http`."""
    settings = Settings(port=0, max_connections=MOST_CONNECTIONS)
    with serving(settings, redis_url_of_module) as service:
        yield service


@pytest.fixture
def quiet(caplog) -> Iterator[None]:
    """Strangers must not fill the log."""
    caplog.set_level(logging.WARNING)
    yield
    assert caplog.records == []


def test_a_connection_too_many_is_told_so_and_disturbs_nobody(narrow, quiet):
    before = closed(narrow, "too_many")

    with ExitStack() as opened:
        taken = [opened.enter_context(raw(narrow)) for _ in range(MOST_CONNECTIONS - 1)]
        assert all(connection.is_alive() for connection in taken)
        for _ in range(20):
            with raw(narrow) as refused:
                answer = refused.answer()
                answer.problem(503, "too-many-connections")
                assert answer.headers["retry-after"] == "1"
                assert refused.rest() == b""
        assert all(connection.is_alive() for connection in taken)
        assert closed(narrow, "too_many") == before + 20
        assert narrow.metric("sirocco_connections") == MOST_CONNECTIONS


def test_a_place_that_becomes_free_is_taken(narrow):
    def is_taken() -> bool:
        with raw(narrow) as connection:
            connection.send(get("/healthz"))
            return connection.answer().status == 200

    with ExitStack() as opened:
        taken = [opened.enter_context(raw(narrow)) for _ in range(MOST_CONNECTIONS - 1)]
        assert narrow.http.get("/healthz").status_code == 200
        assert all(connection.is_alive() for connection in taken)
        assert not is_taken()
        taken[0].close()
        eventually(is_taken)


def test_a_head_of_the_largest_size_is_taken(shared_service):
    padding = "x" * (MOST_HEAD_BYTES - OF_REQUEST - len("X: \r\n"))

    with raw(shared_service) as connection:
        connection.send(get("/healthz", f"X: {padding}"))
        assert connection.answer().status == 200


@pytest.mark.parametrize(
    "head",
    [
        get("/healthz", "X: " + "x" * MOST_HEAD_BYTES),
        get("/healthz?" + "x" * MOST_HEAD_BYTES),
        get("/healthz", *(f"X: {'x' * 1000}" for _ in range(70))),
        get("/healthz", *(f"{'X' * 900}: x" for _ in range(80))),
        get("/healthz", *("X: x" for _ in range(MOST_HEADERS))),
        post("/v1/calibrate", b" " * 100_000 + QUESTION, "X: " + "x" * MOST_HEAD_BYTES),
    ],
    ids=["value", "url", "values", "names", "number", "with a body"],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_head_that_is_too_large_is_refused(shared_service, quiet, head, at_once):
    with ends_one(shared_service, "large_head") as connection:
        try:
            for start in range(0, len(head), len(head) if at_once else 1000):
                connection.send(head[start : start + (len(head) if at_once else 1000)])
        except ConnectionError:
            assert not at_once
        connection.answer().problem(431, "head-too-large")


def test_a_head_is_measured_by_itself(shared_service):
    """Not together with those before it on the same connection."""
    with raw(shared_service) as connection:
        for _ in range(5):
            connection.send(get("/healthz", "X: " + "x" * 30_000))
            assert connection.answer().status == 200


def test_as_many_fields_as_are_allowed_are_taken(shared_service):
    with raw(shared_service) as connection:
        connection.send(get("/healthz", *("X: x" for _ in range(MOST_HEADERS - 1))))
        assert connection.answer().status == 200


@pytest.mark.parametrize(
    "begun",
    [b"GET / HTTP/1.1\r\nX: ", b"GET /", chunked("/v1/events", b"1\r\n[\r\n0\r\nX: ")],
    ids=["field", "url", "trailer"],
)
def test_a_field_without_end_is_not_kept(shared_service, quiet, begun):
    with ends_one(shared_service, "large_head") as connection:
        connection.send(begun)
        connection.send_until_answered(b"x" * 10_000, seconds=0)


def test_a_trailer_without_end_is_not_kept_after_the_answer_either(shared_service, quiet):
    with ends_one(shared_service, "large_head") as connection:
        connection.send(chunked("/v1/nothing", b"1\r\n[\r\n0\r\nX: "))
        assert connection.answer().status == 404
        connection.send_until_answered(b"x" * 10_000, seconds=0)
        assert connection.rest() == b""


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        chunked("/v1/events", b"no size\r\n"),
        chunked("/v1/events", b"2\r\n[]]]\r\n"),
    ],
)
def test_what_is_no_http_is_refused(refusing, quiet, request_):
    with ends_one(refusing, "malformed") as connection:
        connection.send(request_)
        connection.answer().problem(400, "malformed-request")
        assert connection.rest() == b""


def test_requests_that_come_together_are_answered_in_order(shared_service):
    scores = [place / 64 for place in range(MOST_PIPELINED)]
    bodies = [json.dumps(json.loads(QUESTION) | {"scores": [score]}) for score in scores]

    with raw(shared_service) as connection:
        connection.send(b"".join(post("/v1/calibrate", body.encode()) for body in bodies))
        answers = [json.loads(connection.answer().body)["probabilities"] for _ in bodies]
        assert answers == [[score] for score in scores]
        assert connection.is_alive()


def test_too_many_requests_that_come_together_are_answered_up_to_the_bound(shared_service, quiet):
    """Then the connection ends, so that nobody takes silence for an answer."""
    with ends_one(shared_service, "pipelined") as connection:
        connection.send(get("/healthz") * 1000)
        answers = [connection.answer() for _ in range(MOST_PIPELINED + 1)]
        assert {answer.status for answer in answers} == {200}
        assert answers[-1].headers["connection"] == "close"
        assert connection.rest() == b""


@pytest.mark.parametrize("rest", [b"and more", b"\x00\x01", b"}" * 100])
def test_a_body_longer_than_its_length_ends_the_connection(shared_service, quiet, rest):
    """The request was whole, so it is answered; what follows is none."""
    with raw(shared_service) as connection:
        connection.send(post("/v1/calibrate") + rest)
        answer = connection.answer()
        assert json.loads(answer.body)["probabilities"] == [0.5]
        assert answer.headers["connection"] == "close"
        assert connection.rest() == b""


def test_bad_requests_behind_good_ones_wait_for_their_turn(shared_service, quiet):
    with raw(shared_service) as connection:
        connection.send(post("/v1/calibrate") * 3 + b"no request")
        answers = [connection.answer() for _ in range(3)]
        assert [json.loads(answer.body)["probabilities"] for answer in answers] == [[0.5]] * 3
        assert connection.rest() == b""


def test_a_bad_request_after_an_answer_is_refused(shared_service, quiet):
    with raw(shared_service) as connection:
        assert connection.is_alive()
        connection.send(b"no request\r\n\r\n")
        connection.answer().problem(400, "malformed-request")


def test_a_bad_request_of_many_bytes_is_refused_once(refusing, quiet):
    with raw(refusing) as connection:
        connection.send(b"no request\r\n\r\n" * 10_000)
        connection.answer().problem(400, "malformed-request")
        assert connection.rest() == b""


def test_bad_chunks_after_an_answer_get_no_second_one(shared_service, quiet):
    with raw(shared_service) as connection:
        connection.send(chunked("/v1/nothing"))
        assert connection.answer().status == 404
        connection.send(b"no size\r\n")
        assert connection.rest() == b""


def test_a_wish_for_another_protocol_is_ignored(shared_service, quiet):
    """Some clients ask for HTTP/2 with their first request."""
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")

    with raw(shared_service) as connection:
        for _ in range(3):
            connection.send(get("/healthz", *wish))
            assert connection.answer().status == 200


def test_what_follows_a_wish_for_another_protocol_at_once_is_not_lost_in_silence(shared_service):
    wish = ("Connection: Upgrade", "Upgrade: websocket")

    with raw(shared_service) as connection:
        connection.send(get("/healthz", *wish) + get("/healthz"))
        assert connection.answer().headers["connection"] == "close"
        assert connection.rest() == b""


def test_the_gauge_follows_the_connections(shared_service):
    before = shared_service.metric("sirocco_connections") or 0

    with ExitStack() as opened:
        for _ in range(10):
            opened.enter_context(raw(shared_service))
        eventually(lambda: shared_service.metric("sirocco_connections") == before + 10)

    eventually(lambda: shared_service.metric("sirocco_connections") == before)


def test_a_dropped_pipeline_is_forgotten(shared_service, quiet):
    connection = RawConnection(shared_service)
    connection.send(get("/openapi.json") * 60)
    connection.drop()

    assert shared_service.http.get("/healthz").status_code == 200
