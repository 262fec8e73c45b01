"""A head that is found again says what the parser would say of the same bytes, and nothing else is
kept of one request for the next."""

import json
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from httptools import HttpParserError, HttpRequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from app.access.key_store import KeyStore
from app.access.keys import RateLimit, Scope
from app.api.authorization import CALLER
from app.api.server.connections import RepeatedHead
from app.api.server.protocol import BoundedProtocol
from tests.api.raw_connection import QUESTION, RawConnection, parsed_heads, post, raw
from tests.api.running_service import eventually, serving
from tests.api.test_prompt_answers import REQUESTS

PATH = "/v1/calibrate"
HEADERS = ("X-Request-Id: bid-7", "Accept:  */*", "X-Forwarded-For: a, b", "Connection: Keep-Alive")
FIRST = post(f"{PATH}?explain=1", QUESTION, *HEADERS)
_LATE = {"type": "impression", "campaign": "a", "occurred_at": 1767225600, "scores": {"click": 0.1}}
TOO_LATE = json.dumps([_LATE]).encode()
OTHER_BODY = QUESTION.replace(b"0.5", b"0.25")


class Parsed:
    """What the server's parser reads in bytes that are one whole request; None in others."""

    def __init__(self) -> None:
        self.url = self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.begun = self.ended = 0

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ended += 1

    @classmethod
    def of(cls, data: bytes) -> "Parsed | None":
        found = cls()
        try:
            HttpRequestParser(found).feed_data(data)
        except HttpParserError:
            return None
        return found if (found.begun, found.ended) == (1, 1) else None

    @property
    def scope(self) -> dict[str, Any]:
        path, _, query = self.url.partition(b"?")
        scope = {"raw_path": path, "query_string": query, "headers": self.headers}
        return {**scope, "method": "POST", CALLER: "somebody"}


def head_of(data: bytes) -> RepeatedHead | None:
    found = Parsed.of(data)
    assert found is not None
    return RepeatedHead.of(data, found.scope, found.body)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """The first request with other values, or with bytes that are others, more, or fewer."""
    body = draw(st.sampled_from([QUESTION, OTHER_BODY, b"", b"x" * 300]))
    values = st.sampled_from(["bid-8", "", " ", "a b", "a\x00", "a\nb", "a" * 128, "a" * 129, "é"])
    header = f"X-Request-Id: {draw(values)}"
    length = draw(st.sampled_from([None, None, 0, 1, 10**4, 10**30]))
    data = bytearray(post(f"{PATH}?explain=1", body, header, *HEADERS[1:], length=length))
    for _ in range(draw(st.integers(0, 2))):
        place, byte = draw(st.integers(0, len(data) - 1)), draw(st.integers(0, 255))
        size, more = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        data[place : place + size] = bytes([byte]) * more
    return bytes(data)


@given(changed())
@example(FIRST)
@example(FIRST + FIRST)
@example(FIRST[:-1])
@example(FIRST.replace(b"-Length: 5", b"-Length: +5"))
@example(FIRST.replace(b"-Length: 5", b"-Length: 05"))
@example(FIRST.replace(b"bid-7", b"bid-7\r\nTransfer-Encoding: chunked"))
@example(FIRST.replace(b"bid-7", b"bid-7\nContent-Length: 1"))
def test_what_is_found_again_is_what_the_parser_reads(data):
    head = head_of(FIRST)
    assert head is not None
    found, parsed = head.request_in(data), Parsed.of(data)

    if found is None:
        assert data != FIRST
        return
    scope, body = found
    assert parsed is not None
    assert (scope["headers"], body) == (parsed.headers, parsed.body)
    assert CALLER not in scope


@pytest.mark.parametrize(
    "first",
    [
        post(PATH, QUESTION, "Connection: close"),
        post(PATH, QUESTION, "Connection: keep-alive, x"),
        post(PATH, QUESTION, "Expect: 100-continue"),
        post(PATH, QUESTION, "Expect: something"),
        post(PATH).replace(b"HTTP/1.1", b"HTTP/1.0"),
        b"\r\n" + post(PATH),
    ],
)
def test_what_says_more_than_a_repeated_head_may_is_parsed_every_time(first):
    assert head_of(first) is None


def test_a_head_that_began_in_other_bytes_is_none():
    """Else the next request would be by somebody with a key."""
    begun = b"POST /v1/calibrate HTTP/1.1\r\nAuthorization: Bearer sir_x\r\nX: "
    found = Parsed.of(begun + post(PATH))
    assert found is not None

    assert RepeatedHead.of(post(PATH), found.scope, found.body) is None


def twice(connection: RawConnection, sent: bytes = FIRST) -> None:
    """The second time the head is known."""
    for _ in range(2):
        connection.send(sent)
        assert connection.answer().status == 200


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_any_request_is_answered_as_on_a_new_connection(shared_service, sent):
    with raw(shared_service) as new:
        new.send(sent)
        expected = new.rest()

    with raw(shared_service) as used:
        twice(used, post(PATH))
        used.send(sent)
        assert used.rest() == expected


def test_a_known_head_is_not_parsed_and_its_pieces_are(shared_service):
    with parsed_heads() as parsed, raw(shared_service) as connection:
        twice(connection)
        for name in ("one", "two"):
            connection.send(FIRST.replace(b"bid-7", name.encode()))
            assert connection.answer().headers["x-request-id"] == name
        assert len(parsed) == 1
        for cut in (10, len(FIRST) - len(QUESTION), len(FIRST) - 1):
            connection.send(FIRST[:cut])
            connection.send(FIRST[cut:])
            assert connection.answer().status == 200


def test_ids_of_proxies_and_traces_are_others_each_time(shared_service):
    names = ("X-Request-Id", "X-B3-TraceId", "b3", "tracestate", "X-Amzn-Trace-Id", "X-Real-IP")

    def sent(number: int) -> bytes:
        ids = (f"{name}: {number}a=b,c" for name in names)
        return post(PATH, QUESTION, *ids, f"X-Forwarded-For: 10.0.0.{number}, 10.1.1.1")

    with parsed_heads() as parsed, raw(shared_service) as connection:
        for number in range(3):
            twice(connection, sent(number))

    assert len(parsed) == 1


def test_who_asks_in_turns_repeats_each_of_four_heads(shared_service):
    """A pool of connections is used for all that an ad server sends; a fifth replaces the last."""
    one, two, three, last, fifth = [
        FIRST,
        post(PATH, QUESTION),
        post("/v1/events", TOO_LATE),
        post(PATH, QUESTION, "X-Own: 1"),
        post(PATH, QUESTION, "X-Own: 2"),
    ]
    with parsed_heads() as parsed, raw(shared_service) as connection:
        for sent in (one, two, three, last, *[one, three, two, last] * 3, fifth, fifth, last, one):
            connection.send(sent)
            assert connection.answer().status == 200

    assert len(parsed) == 6


def test_who_repeats_a_head_is_let_in_anew_each_time(settings, redis_url, service):
    """By a limit of requests, and by a key that may be revoked."""
    store = KeyStore(service.store)
    _, token = store.make(frozenset({Scope.CALIBRATE}), rate_limit=3)
    sent = post(PATH, QUESTION, f"Authorization: Bearer {token}")
    limit = patch("app.api.authorization.RateLimit", partial(RateLimit, clock=lambda: 0.0))
    with limit, serving(settings, redis_url) as closed, raw(closed) as connection:
        statuses, left = [], []
        for _ in range(6):
            connection.send(sent)
            answer = connection.answer()
            statuses.append(answer.status)
            left.append(answer.headers["ratelimit"])

    assert statuses == [200] * 3 + [429] * 3
    assert len(set(left[:3])) == 3


def test_a_repeated_request_is_progress_and_the_last_one_of_a_server_says_so(service):
    """To the reaper, and in the answer; the connection is seen where it is asked what it knows."""
    seen: list[BoundedProtocol] = []
    with raw(service) as connection:
        twice(connection)
        with patch.object(BoundedProtocol, "_answers_repeated", lambda at, *_: seen.append(at)):
            connection.send(FIRST)
            connection.answer()
        before = seen[0].state()[1]
        twice(connection)
        assert seen[0].state()[1] is not before
        seen[0].server_state.default_headers = [(b"connection", b"close")]
        connection.send(FIRST)

        assert connection.answer().headers["connection"] == "close"


def test_a_connection_reads_few_heads_to_remember(service):
    with (
        raw(service) as connection,
        patch.object(RepeatedHead, "of", wraps=RepeatedHead.of) as read,
    ):
        for number in range(20):
            connection.send(post(PATH, QUESTION, f"X-Own: {number}"))
            assert connection.answer().status == 200

    assert read.call_count == 16
    eventually(lambda: service.metric("sirocco_requests_total", route=PATH, code="200") == 20)
