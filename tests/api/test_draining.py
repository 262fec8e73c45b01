"""A server that is told to end: what was begun is answered, and balancers are told in time."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import httpx
import pytest
import uvicorn

from app.api.metrics.workers import WorkerRecord, WorkerSlot, WorkerTable, new_file
from app.api.server.server import server_of
from app.settings import Settings
from tests.api.running_service import IDLE_SECONDS, eventually
from tests.loopback import LOOPBACK, refuses

QUESTION = b'{"target": "click", "campaign": "a", "scores": [0.25]}'
HEAD = (
    b"POST /v1/calibrate HTTP/1.1\r\nhost: sirocco\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % len(QUESTION)
)
NOWHERE = "unix:///nowhere/redis.sock"


@contextmanager
def run(server: uvicorn.Server, listeners: list[socket.socket] | None = None) -> Iterator[Thread]:
    """The server in a thread; what still runs at the end is told to end."""
    thread = Thread(target=server.run, args=[listeners])
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def serving(settings: Settings, redis_url: str) -> Iterator[tuple[uvicorn.Server, int]]:
    server = server_of(settings, redis_url)
    with run(server):
        eventually(lambda: server.started)
        yield server, server.servers[0].sockets[0].getsockname()[1]


@contextmanager
def connected(settings: Settings, redis_url: str) -> Iterator[Any]:
    """The same with a connection."""
    with (
        serving(settings, redis_url) as (server, port),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        yield server, port, connection


def one_answer(connection: socket.socket) -> bytes:
    """All that comes until an object of JSON ends."""
    answer = connection.recv(65536)
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    return answer


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_request_that_is_half_here_is_answered(settings, redis_url):
    """Its answer is the last on its connection, and says so."""
    with connected(settings, redis_url) as (server, port, connection):
        connection.sendall(HEAD + QUESTION[:10])
        eventually(lambda: any(taken.cycle for taken in server.server_state.connections))

        server.should_exit = True
        eventually(lambda: refuses(port))
        connection.sendall(QUESTION[10:])
        answer = received(connection)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_a_request_that_stays_half_here_is_told_that_nobody_waits_for_the_rest(
    settings, redis_url, caplog, monkeypatch
):
    """It is no fault of the service: a problem as any other, and no traceback in the log."""
    monkeypatch.setattr(IDLE_SECONDS, 0.1)
    with connected(settings, redis_url) as (server, _, connection):
        server.config.timeout_graceful_shutdown = 1
        head = b"POST /v1/events HTTP/1.1\r\nhost: sirocco\r\ncontent-length: 9999\r\n\r\n"
        connection.sendall(head + b"[")
        eventually(lambda: any(taken.tasks for taken in server.server_state.connections))

        server.should_exit = True
        answer = received(connection)

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b'send it again"}')
    assert b"urn:sirocco:problem:draining" in answer
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("used_before", [True, False])
def test_a_connection_without_a_request_may_still_bring_one(
    settings, redis_url, used_before, monkeypatch
):
    """One that was just made, or whose caller is about to ask again."""
    monkeypatch.setattr(IDLE_SECONDS, 600.0)
    with connected(settings, redis_url) as (server, port, connection):
        if used_before:
            connection.sendall(HEAD + QUESTION)
            assert one_answer(connection).startswith(b"HTTP/1.1 200 ")
        eventually(lambda: bool(server.server_state.connections))

        server.should_exit = True
        eventually(lambda: refuses(port))
        connection.sendall(HEAD + QUESTION)
        answer = received(connection)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_a_server_that_stood_still_meanwhile_reads_what_has_come(settings, redis_url, monkeypatch):
    """Its host may take the processor away for longer than it waits for idle connections."""
    monkeypatch.setattr(IDLE_SECONDS, 0.4)
    with connected(settings, redis_url) as (server, _, connection):
        eventually(lambda: bool(server.server_state.connections))
        status, looks = server._status, []

        def update() -> None:
            looks.append(status.serving)
            if looks.count(False) == 2:
                # The first was before it began to wait.
                connection.sendall(HEAD + QUESTION)
                time.sleep(0.5)

        monkeypatch.setattr(status, "update", update)
        server.should_exit = True
        answer = received(connection)

    assert answer.startswith(b"HTTP/1.1 200 ")


def test_idle_connections_do_not_hold_up_the_end(settings, redis_url, monkeypatch):
    """They are closed in the end, without a byte."""
    monkeypatch.setattr(IDLE_SECONDS, 0.1)
    with connected(settings, redis_url) as (server, _, connection):
        eventually(lambda: bool(server.server_state.connections))
        server.should_exit = True

        assert received(connection) == b""


def test_balancers_are_told_before_the_end(settings, redis_url):
    """While `drain_seconds` last, new connections are taken and `/readyz` says to look elsewhere;
    afterwards none is."""
    patient = settings.model_copy(update={"drain_seconds": 600.0})
    with serving(patient, redis_url) as (server, port):
        url = f"http://127.0.0.1:{port}"
        ready = httpx.get(f"{url}/readyz", **LOOPBACK)

        server.should_exit = True
        eventually(lambda: httpx.get(f"{url}/readyz", **LOOPBACK).status_code == 503)
        told = httpx.get(f"{url}/readyz", **LOOPBACK)
        answer = httpx.post(f"{url}/v1/calibrate", content=QUESTION, **LOOPBACK)
        # As a second signal does.
        server.should_exit = False
        eventually(lambda: refuses(port))

    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert (told.json()["status"], told.headers["connection"]) == ("draining", "close")
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")


def test_a_drain_has_an_end(settings, redis_url):
    short = settings.model_copy(update={"drain_seconds": 0.05})
    with serving(short, redis_url) as (server, port):
        server.should_exit = True
        eventually(lambda: refuses(port))


@contextmanager
def waiting_worker() -> Iterator[tuple[uvicorn.Server, Thread, WorkerTable, socket.socket]]:
    """One of two processes, whose store is away while the other one serves."""
    file = new_file(2)
    records = WorkerTable.shared(file, 2)
    records.write(1, WorkerRecord(os.getpid(), 0, True, True, None, "000001-a"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = server_of(Settings(snapshot_dir="off"), NOWHERE, WorkerSlot.shared(file, 2, 0))
        with run(server, [listener.dup()]) as thread:
            eventually(lambda: records.read(0) is not None)
            yield server, thread, records, listener
    os.close(file)


def test_a_worker_without_a_version_does_not_accept_while_another_has_one():
    """It takes over when the other is gone: a map of nobody's is better than no answer."""
    with waiting_worker() as (_, _, records, listener):
        before = records.read(0)
        with socket.create_connection(listener.getsockname()) as connection:
            connection.sendall(HEAD + QUESTION)

            records.clear(1)
            answer = one_answer(connection)

    assert before is not None
    assert not before.serving
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_worker_that_waits_can_be_told_to_end():
    with waiting_worker() as (server, thread, _, _):
        server.should_exit = True
        thread.join()

        assert not thread.is_alive()
