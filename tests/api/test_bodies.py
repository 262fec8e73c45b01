"""The bounds of a body: its size in every framing, its packing, its media type, and that it is
JSON: a small 400 on every route that reads one."""

import gzip
import json
import socket
import tracemalloc
from collections import deque
from collections.abc import Iterator

import httpx
import pytest

from app.api.hot_path import gunzip
from app.api.problems import Problem
from tests.api.problems import problem
from tests.api.running_service import eventually

ROUTES = ["/v1/calibrate", "/v1/events", "/v1/admin/retrain"]
MOST = 8 * 1024 * 1024
PACKED = {"Content-Encoding": "gzip"}
QUESTION = {"target": "click", "campaign": "a", "scores": [0.5]}


def megabytes(count: int) -> Iterator[bytes]:
    return (b" " * 1024 * 1024 for _ in range(count))


def packed_alike(body: bytes) -> bytes:
    """Without the time, which would make another parameter in every process."""
    return gzip.compress(body, mtime=0)


def question_of(size: int) -> bytes:
    return json.dumps(QUESTION).encode().ljust(size)


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("headers", [{}, {"Content-Length": str(50 * 1024 * 1024)}])
def test_a_body_of_50_megabytes_is_refused(refusing, path, headers):
    """Whether its length is announced or it comes in chunks without one."""
    answer = refusing.http.post(path, content=megabytes(50), headers=headers)

    assert problem(answer, 413, "body-too-large")["limit"] == MOST


def test_an_announced_length_is_refused_before_the_body_is_sent(refusing):
    address = httpx.URL(refusing.url)
    head = b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n"

    with socket.create_connection((address.host, address.port), timeout=20) as connection:
        connection.sendall(head)
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(("size", "status"), [(MOST, 200), (MOST + 1, 413)])
@pytest.mark.parametrize("packed", [False, True])
def test_the_bound_is_exact_packed_and_unpacked(shared_service, size, status, packed):
    body = question_of(size)
    content, headers = (gzip.compress(body, 1), PACKED) if packed else (body, {})

    answer = shared_service.http.post("/v1/calibrate", content=content, headers=headers)

    assert answer.status_code == status


def test_a_body_in_chunks_is_read_as_one(shared_service):
    body = json.dumps(QUESTION).encode()

    answer = shared_service.http.post(
        "/v1/calibrate", content=(body[at : at + 7] for at in range(0, len(body), 7))
    )

    assert answer.json()["probabilities"] == [0.5]


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("bomb", [packed_alike(bytes(8 * MOST)), packed_alike(bytes(MOST)) * 8])
def test_a_gzip_bomb_is_refused(refusing, path, bomb):
    """64 megabytes in 64 kilobytes, in one member or in many."""
    answer = refusing.http.post(path, content=bomb, headers=PACKED)

    assert problem(answer, 413, "body-too-large")["limit"] == MOST


def test_a_gzip_bomb_is_never_held_in_memory():
    bomb = gzip.compress(bytes(32 * 1024 * 1024), 1)
    tracemalloc.start()

    with pytest.raises(Problem, match="at most 1048576 bytes"):
        deque(gunzip(bomb, 1024 * 1024), 0)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1024 * 1024


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (b"not gzip", "incorrect header check"),
        (packed_alike(b"[]")[:-4], "the stream is cut short"),
        (packed_alike(b"[]")[:12], "the stream is cut short"),
        (packed_alike(b"[]") + b"rest", "incorrect header check"),
        (packed_alike(b"[]")[:-8] + bytes(8), "incorrect data check"),
        (packed_alike(b"") * 100 + b"x", "more than 99 members"),
    ],
)
def test_broken_gzip_is_refused(refusing, path, packed, reason):
    answer = refusing.http.post(path, content=packed, headers=PACKED)

    assert reason in problem(answer, 400, "bad-gzip")["detail"]


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_of_several_members_is_one_body(shared_service, encoding):
    body = json.dumps(QUESTION).encode()
    packed = gzip.compress(body[:10]) + gzip.compress(body[10:])

    answer = shared_service.http.post(
        "/v1/calibrate", content=packed, headers={"Content-Encoding": encoding}
    )

    assert answer.json()["probabilities"] == [0.5]


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "x" * 10_000])
def test_other_encodings_are_refused(refusing, path, encoding):
    answer = refusing.http.post(path, content=b"x", headers={"Content-Encoding": encoding})

    content = problem(answer, 415, "unsupported-encoding")
    assert content["detail"].startswith("Content-Encoding = ")
    assert content["detail"].endswith("must be gzip or identity")
    assert answer.headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("media_type", ["text/plain", "multipart/form-data", "", "x" * 10_000])
def test_other_media_types_are_refused(refusing, path, media_type):
    answer = refusing.http.post(path, content=b"{}", headers={"Content-Type": media_type})

    content = problem(answer, 415, "unsupported-media-type")
    assert content["detail"].startswith("Content-Type = ")
    assert "must be application/json" in content["detail"]


@pytest.mark.parametrize("media_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_a_media_type_may_have_parameters(shared_service, media_type):
    answer = shared_service.http.post(
        "/v1/calibrate", content=json.dumps(QUESTION), headers={"Content-Type": media_type}
    )

    assert answer.status_code == 200


def test_a_body_that_never_ends_is_no_fault_of_ours(refusing):
    """The caller hangs up in the middle: counted as a bad request, stored as nothing."""
    address = httpx.URL(refusing.url)
    labels = {"route": "/v1/events", "code": "400"}
    before = refusing.metric("sirocco_requests_total", **labels) or 0

    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n[")

    eventually(lambda: refusing.metric("sirocco_requests_total", **labels) == before + 1)


DEEP = 100_000


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * DEEP, "nested too deeply"),
        (b"[" * DEEP + b"]" * DEEP, "nested too deeply"),
        (b"[" + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"]", "nested too deeply"),
        (b"[" * 300 + b"]" * 300, "nested too deeply"),
        (b'["\xff"]', "not UTF-8: invalid start byte at byte 2"),
        (b'["\xed\xa0\x80"]', "not UTF-8"),
        (b'["\\ud800"]', "half a surrogate"),
        (b'[{"\\udfff": 1}]', "half a surrogate"),
        (b"[1,]", "not JSON"),
        (b"[1", "not JSON"),
        (b"[] []", "not JSON: Extra data at character 3"),
        (b"[\x00]", "not JSON"),
        (b"[01]", "not JSON"),
        (b"['a']", "not JSON"),
    ],
)
def test_what_is_no_json_is_a_small_problem(refusing, path, body, reason):
    answer = refusing.http.post(path, content=body)

    assert reason in problem(answer, 400, "malformed-json")["detail"]


@pytest.mark.parametrize("path", ["/v1/calibrate", "/v1/admin/retrain"])
def test_an_object_nested_too_deeply_is_a_small_problem(refusing, path):
    body = b'{"a":' * DEEP + b"1" + b"}" * DEEP

    answer = refusing.http.post(path, content=body)

    assert "nested too deeply" in problem(answer, 400, "malformed-json")["detail"]


def test_an_empty_body_asks_nothing(refusing):
    answer = refusing.http.post("/v1/calibrate", content=b"")

    assert "not JSON" in problem(answer, 400, "malformed-json")["detail"]
