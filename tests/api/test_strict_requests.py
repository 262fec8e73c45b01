"""Requests that a proxy before us may read in another way are refused, and the connection ends."""

import pytest

from tests.api.raw_connection import QUESTION, RawConnection, get, post, raw

PATH = "/v1/calibrate"
LENGTH = b"Content-Length: %d" % len(QUESTION)
CHUNKED = b"Transfer-Encoding: chunked"
SIZE = b"%x" % len(QUESTION)
PIECES = SIZE + b"\r\n" + QUESTION + b"\r\n0\r\n\r\n"
SMUGGLED = get("/healthz")


def request(*headers: bytes, body: bytes = QUESTION, version: bytes = b"1.1") -> bytes:
    return b"\r\n".join([b"POST /v1/calibrate HTTP/" + version, *headers, b"", body])


def chunks(text: bytes) -> bytes:
    return request(b"Host: a", CHUNKED, body=text)


HEADS = {
    "no Host": request(LENGTH),
    "an empty Host": request(b"Host:", LENGTH),
    "two Hosts": request(b"Host: a", b"Host: b", LENGTH),
    "twice the same Host": request(b"Host: a", b"host: a", LENGTH),
    "a list of Hosts": request(b"Host: a,b", LENGTH),
    "a Host with a path": request(b"Host: a/b", LENGTH),
    "a Host with a user": request(b"Host: a@b", LENGTH),
    "two Hosts of HTTP/1.0": request(b"Host: a", b"Host: a", LENGTH, version=b"1.0"),
    "gzip, chunked": request(b"Host: a", b"Transfer-Encoding: gzip, chunked", body=PIECES),
    "gzip": request(b"Host: a", b"Transfer-Encoding: gzip", body=PIECES),
    "chunked twice": request(b"Host: a", CHUNKED, CHUNKED, body=PIECES),
    "identity": request(b"Host: a", LENGTH, b"Transfer-Encoding: identity"),
    "something like chunked": request(b"Host: a", b"Transfer-Encoding: xchunked", body=PIECES),
    "chunks of HTTP/1.0": request(b"Host: a", CHUNKED, version=b"1.0", body=PIECES),
    "chunks and a length": request(b"Host: a", CHUNKED, LENGTH, body=PIECES),
    "a length and chunks": request(b"Host: a", LENGTH, CHUNKED, body=PIECES),
    "two lengths": request(b"Host: a", LENGTH, LENGTH),
    "a list of lengths": request(b"Host: a", LENGTH + b", 53"),
    "a length with a sign": request(b"Host: a", b"Content-Length: +53"),
    "a length of 2^64": request(b"Host: a", b"Content-Length: 18446744073709551616"),
    "a folded line": request(b"Host: a", LENGTH, b"X: a\r\n b"),
    "a folded encoding": request(b"Host: a", b"Transfer-Encoding:\r\n chunked", body=PIECES),
    "a line feed for a line's end": request(b"Host: a\nX: b", LENGTH),
    "a line feed for the head's end": request(b"Host: a", LENGTH + b"\r\n\nGET / HTTP/1.1"),
    "a carriage return in a value": request(b"Host: a", b"X: a\rb", LENGTH),
    "a zero in a value": request(b"Host: a", b"X: a\0b", LENGTH),
    "a space before the colon": request(b"Host: a", b"Content-Length : 53"),
    "HTTP/2.0": request(b"Host: a", LENGTH, version=b"2.0"),
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
}
BODIES = {
    "a chunk of 2^64": chunks(b"10000000000000000\r\n" + QUESTION),
    "a chunk of 2^64 and the right size": chunks(b"10000000000000035\r\n" + QUESTION),
    "a chunk with 0x": chunks(b"0x" + PIECES),
    "a chunk with a sign": chunks(b"+" + PIECES),
    "a chunk that ends with a line feed": chunks(SIZE + b"\r\n" + QUESTION + b"\n0\r\n\r\n"),
    "a size that ends with a line feed": chunks(SIZE + b"\n" + QUESTION + b"\r\n0\r\n\r\n"),
    "a line feed in an extension": chunks(SIZE + b";a\nb\r\n" + QUESTION + b"\r\n0\r\n\r\n"),
    "a length behind the chunks": chunks(PIECES[:-2] + b"Content-Length: 3\r\n\r\n"),
}
SOUND = {
    "a name": request(b"Host: a.example-1.com", LENGTH),
    "a port": request(b"Host: 127.0.0.1:8080", LENGTH),
    "an address of version 6": request(b"Host: [::1]:8080", LENGTH),
    "capitals": request(b"HOST: a", b"TRANSFER-ENCODING: Chunked", body=PIECES),
    "an extension and a trailer": chunks(SIZE + b";a=b" + PIECES[2:-2] + b"X: y\r\n\r\n"),
    "no Host of HTTP/1.0": request(LENGTH, version=b"1.0"),
}


def refused(connection: RawConnection) -> None:
    connection.answer().problem(400, "malformed-request")
    assert connection.rest() == b""


@pytest.mark.parametrize("sent", [*HEADS.values(), *BODIES.values()], ids=[*HEADS, *BODIES])
def test_what_may_be_read_in_two_ways_is_refused(refusing, sent):
    """And what follows it is not read as a request."""
    with raw(refusing) as connection:
        connection.send(sent + SMUGGLED)
        refused(connection)


@pytest.mark.parametrize("sent", HEADS.values(), ids=HEADS)
def test_a_sound_request_before_it_is_answered(refusing, sent):
    with raw(refusing) as connection:
        connection.send(post(PATH))
        assert connection.answer().status == 200
        connection.send(sent + SMUGGLED)
        refused(connection)


@pytest.mark.parametrize("sent", SOUND.values(), ids=SOUND)
def test_what_is_sound_is_answered(shared_service, sent):
    with raw(shared_service) as connection:
        connection.send(sent)
        assert connection.answer().status == 200
