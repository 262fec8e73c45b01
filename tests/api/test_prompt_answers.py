"""What is answered without a task is answered byte for byte as uvicorn sends it."""

import gzip
import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.hot_path import JSON_TYPE, HotPath, PlainResponse
from app.api.server.protocol import BoundedProtocol
from tests.api.raw_connection import QUESTION, chunked, get, post, raw
from tests.api.running_service import RunningService, eventually

PATH = "/v1/calibrate"
LARGE = json.dumps({"target": "click", "campaign": "a", "scores": [0.5] * 60_000}).encode()
PIECES = chunked(PATH, b"%x\r\n" % len(QUESTION) + QUESTION + b"\r\n", b"0\r\n\r\n")
LAST = "Connection: close"
REQUESTS = {
    "whole": post(PATH, QUESTION, LAST),
    "with a query": post(f"{PATH}?explain=1", QUESTION, LAST),
    "with a bad query": post(f"{PATH}?explain=9", QUESTION, LAST),
    "of HTTP/1.0": post(PATH).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "in chunks": PIECES + get("/healthz", LAST),
    "kept alive, and another": post(PATH) + post(PATH, QUESTION, LAST),
    "between others": get("/healthz") + post(PATH) + get("/v1/campaigns") + post(PATH, b"", LAST),
    "no JSON": post(PATH, b"{", LAST),
    "a broken rule": post(PATH, QUESTION.replace(b"0.5", b"1.5"), LAST),
    "packed": post(PATH, gzip.compress(QUESTION, mtime=0), "Content-Encoding: gzip", LAST),
    "of another type": post(PATH, QUESTION, "Content-Type: text/plain", LAST),
    "of no columns": post(PATH, b"x", "Content-Type: application/vnd.sirocco.columns", LAST),
    "another method": post(PATH, QUESTION, LAST).replace(b"POST", b"PUT"),
    "for a thread": post(PATH, LARGE, LAST),
    "longer than it may be": post(PATH, b"", LAST, length=10**12) + LARGE,
    "with an upgrade": post(PATH, QUESTION, "Connection: close, upgrade", "Upgrade: h2c"),
    "who waits to be asked": post(PATH, QUESTION, "Expect: 100-continue", LAST),
    "and no request behind": post(PATH) + b"what?\r\n\r\n",
}


@contextmanager
def no_prompt(service: RunningService) -> Iterator[None]:
    """Connections from now on are those of any ASGI application, such as an echo."""
    paths = service.app.prompt_paths
    del service.app.prompt_paths
    yield
    service.app.prompt_paths = paths


def everything(service: RunningService, sent: bytes) -> bytes:
    with raw(service) as connection:
        connection.send(sent)
        return connection.rest()


def check_is_answered_as_by_a_task(service: RunningService, sent: bytes) -> None:
    """To the last byte."""
    answer = everything(service, sent)

    with no_prompt(service):
        assert answer == everything(service, sent)
    assert answer.startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_the_answer_is_the_one_of_a_task(shared_service, sent):
    check_is_answered_as_by_a_task(shared_service, sent)


def test_no_task_is_made_for_a_whole_request(service, monkeypatch):
    """Also when it comes in two pieces."""
    started = Mock()
    monkeypatch.setattr(HotPath, "__call__", started)
    sent = post(PATH)

    with raw(service) as connection:
        for cut in (len(sent), 20, len(sent) - 3):
            connection.send(sent[:cut])
            connection.send(sent[cut:])
            assert connection.answer().status == 200

    started.assert_not_called()


def test_a_body_that_never_ends_is_counted_as_cut_short(service):
    with raw(service) as connection:
        connection.send(post(PATH, QUESTION, length=1000))
        eventually(lambda: service.metric("sirocco_connections") == 1 + 1)
    counted = {"route": PATH, "code": "400"}

    eventually(lambda: service.metric("sirocco_requests_total", **counted) == 1)


class Cycle(SimpleNamespace):
    """A request whose head is whole."""

    def __init__(self, **attributes):
        whole = {"more_body": False, "body": bytearray(b"b"), "scope": {"path": PATH}}
        sent = {"default_headers": [], "keep_alive": True, "waiting_for_100_continue": False}
        super().__init__(**whole | sent | attributes)


def protocol(answer=None, *, read_paused=False, write_paused=False, closing=False):
    found = BoundedProtocol.__new__(BoundedProtocol)
    found.app = found._prompt = Mock(prompt_answer=Mock(return_value=answer))
    found.transport = Mock(is_closing=lambda: closing)
    found.flow = SimpleNamespace(read_paused=read_paused, write_paused=write_paused)
    found.on_response_complete = Mock()
    return found


@pytest.fixture
def tasks(monkeypatch):
    """What is run as a task."""
    started = deque()
    monkeypatch.setattr(
        HttpToolsProtocol, "_start_asgi_task", lambda _, cycle, app: started.append(cycle)
    )
    return started


def test_a_caller_who_does_not_read_gets_a_task_that_waits(tasks):
    found = protocol(PlainResponse(200, [JSON_TYPE], b"{}"), write_paused=True)
    found._held = Cycle()

    found.answer_held()

    assert len(tasks) == 1
    assert found._held is None
    found.transport.write.assert_not_called()


def test_a_long_body_gets_a_task_that_reads_it(tasks):
    """Uvicorn has stopped reading, and goes on only when somebody takes what is there."""
    found = protocol(read_paused=True)
    found._held = Cycle(more_body=True)

    found.answer_held()

    assert len(tasks) == 1


@pytest.mark.parametrize("state", [{"closing": True}, {}])
def test_a_half_body_waits_for_the_rest_or_the_end(tasks, state):
    found = protocol(**state)
    found._held = Cycle(more_body=True)

    found.answer_held()

    assert not tasks
    assert found._held is not None


def test_a_server_that_ends_says_so_in_the_answer():
    found = protocol(PlainResponse(200, [JSON_TYPE], b"{}"))
    found._held = cycle = Cycle(default_headers=[(b"connection", b"close")])

    found.answer_held()

    (written,) = found.transport.write.call_args.args
    assert written.count(b"connection: close\r\n") == 1
    assert not cycle.keep_alive
    found.transport.close.assert_called_once()
