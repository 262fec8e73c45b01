"""`sirocco serve --workers`: several processes that look like one."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import httpx
import pytest

from app.api.metrics.counters import MetricLayout
from app.api.metrics.workers import WorkerSlot, new_file
from app.cli.serving.processes import Supervision
from app.cli.serving.serve import ApiWorkers as Parent
from tests.command_line.api_workers import ApiWorkers, Caller, end, half_a_request, serve
from tests.command_line.conftest import SECONDS
from tests.command_line.test_up import runs, wait_until
from tests.loopback import LOOPBACK, refuses
from tests.reserved_ports import reserved_port

QUESTIONS = 20
ROUND = 60


@contextmanager
def frozen(process: int) -> Iterator[None]:
    """The process does nothing inside, so that another must."""
    os.kill(process, signal.SIGSTOP)
    try:
        # Or it takes one more connection before it is told.
        wait_until(lambda: ") T " in Path(f"/proc/{process}/stat").read_text(), "it stands still")
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.slow
def test_all_answer_for_each_other_and_to_the_end(tmp_path, started, environment):
    environment["SIROCCO_DRAIN_SECONDS"] = "600"
    running = serve(started, tmp_path / "data")
    each_worker_answers_for_all(running)
    balancers_are_told_by_every_worker(running)
    whoever_has_begun_is_answered_to_the_end(running)


@pytest.mark.slow
def test_workers_are_replaced_and_nobody_notices(tmp_path, started):
    running = serve(started, tmp_path / "data")
    counters_do_not_fall_with_a_worker(running)
    a_rolling_restart_fails_no_request(running)
    the_end_may_come_in_the_middle_of_a_restart(running)


def each_worker_answers_for_all(running: ApiWorkers) -> None:
    """On the same port, with the same sum, whoever is asked: the other one cannot answer."""
    first, second = running.workers

    with frozen(first):
        running.ask(QUESTIONS)
    with frozen(second):
        running.ask(2 * QUESTIONS)
        by_the_first = running.counted
    with frozen(first):
        by_the_second = running.counted

    assert (by_the_first, by_the_second) == (3 * QUESTIONS, 3 * QUESTIONS)


def counters_do_not_fall_with_a_worker(running: ApiWorkers) -> None:
    """One that is killed is started again, goes on in its row, and is gone from the gauges."""
    running.ask(QUESTIONS)
    killed = running.workers[0]

    os.kill(killed, signal.SIGKILL)
    others = lambda: {*running.workers} - {killed}  # noqa: E731
    wait_until(lambda: running.serving == 1 or len(others()) == 2, "the dead one is forgotten")
    without_it = running.counted
    wait_until(lambda: running.serving == 2, "another one serves")
    with_another = running.counted
    running.ask(1)

    assert killed not in running.workers
    assert (without_it, with_another, running.counted) == (QUESTIONS, QUESTIONS, QUESTIONS + 1)
    assert running.metric("process_open_fds", worker="2") is None


def await_answers(callers: list[Caller]) -> None:
    """Returns when each caller has been answered another round of questions."""
    enough = [caller.answered + ROUND for caller in callers]
    wait_until(
        lambda: all(
            caller.answered >= number for caller, number in zip(callers, enough, strict=True)
        ),
        "callers are answered",
    )


def a_rolling_restart_fails_no_request(running: ApiWorkers) -> None:
    """Under load from new connections and from kept ones; and no answer is missing in the sum."""
    before, counted, stop = running.workers, running.counted, Event()
    callers = [Caller(running.url, keeps_alive, stop) for keeps_alive in (False, True) * 2]
    await_answers(callers)
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not set(before) & set(running.workers), "all are replaced")
    wait_until(lambda: not any(map(runs, before)), "the old ones have ended")
    await_answers(callers)
    stop.set()
    for caller in callers:
        caller.thread.join()

    assert [caller.failures for caller in callers] == [[]] * len(callers)
    assert running.counted - counted == sum(caller.answered for caller in callers)
    assert running.serving == 2


def balancers_are_told_by_every_worker(running: ApiWorkers) -> None:
    """While the drain lasts, all go on, and each says that the end is near."""
    running.process.send_signal(signal.SIGTERM)
    wait_until(lambda: running.readiness().status_code == 503, "the end is announced")

    for other in running.workers:
        with frozen(other):
            assert running.readiness().json()["status"] == "draining"
            running.ask(1)


def whoever_has_begun_is_answered_to_the_end(running: ApiWorkers) -> None:
    """The second SIGTERM: requests in flight on every worker, then order, then nothing."""
    workers = running.workers
    begun = [half_a_request(running.port) for _ in range(QUESTIONS)]
    wait_until(lambda: running.metric("sirocco_connections") == QUESTIONS + 1, "all are taken")

    running.process.send_signal(signal.SIGTERM)
    wait_until(lambda: refuses(running.port), "no connection is taken any more")
    answers = []
    for connection, rest in begun:
        connection.sendall(rest)
        with connection:
            answers.append(b"".join(iter(lambda: connection.recv(4096), b"")))  # noqa: B023
    last_words = running.process.communicate(timeout=SECONDS)[1]

    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)
    assert all(b"\r\nconnection: close\r\n" in answer for answer in answers)
    assert running.process.returncode == 0, last_words
    assert "Traceback" not in last_words
    assert not any(map(runs, workers))


def the_end_may_come_in_the_middle_of_a_restart(running: ApiWorkers) -> None:
    """Nothing is left of old workers or new ones."""
    before = running.workers
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: running.workers != before, "a replacement starts")
    workers = running.workers

    said = end(running.process)

    assert running.process.returncode == 0, said
    assert not any(map(runs, workers))


@pytest.mark.slow
def test_a_replacement_that_does_not_start_replaces_nobody(capsys):
    """A setting went wrong meanwhile: those that serve go on."""
    environment = {"SIROCCO_REDIS_URL": "unix:///nowhere"}
    with socket.create_server(("127.0.0.1", 0)) as listening, Supervision() as supervision:
        parent = Parent(supervision, 1, listening, environment)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/healthz"
        assert httpx.get(url, **LOOPBACK).status_code == 200

        environment["SIROCCO_PORT"] = "none"
        parent.replace_all()

        assert httpx.get(url, **LOOPBACK).status_code == 200
        parent.end()
    assert "does not come to serve: the old ones go on" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_in_use_is_told(tmp_path, called, workers):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        run = called("serve", "--workers", workers, "--port", port, "--data-dir", tmp_path / "data")

    assert run.returncode == 1
    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use" in run.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("command", "variable", "reason"),
    [
        ("serve", "SIROCCO_SNAPSHOT_DIR", "/file is no folder that can be written"),
        ("serve", "SIROCCO_DATA_DIR", "/file is no folder that can be written"),
        ("worker", "SIROCCO_DATA_DIR", "/file is no folder that can be written"),
        ("serve", "SIROCCO_AUDIT_LOG", "/file/log: Not a directory"),
        ("serve", "SIROCCO_AUDIT_LOG", "/none/log: No such file or directory: make its folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_at_the_start(
    tmp_path, refused, command, variable, reason
):
    (tmp_path / "file").touch()

    folder = "none" if "/none/" in reason else "file"
    said = refused(command, **{variable: str(tmp_path / folder / "log")})

    assert said.startswith(f"sirocco: {variable}")
    assert reason in said


@pytest.mark.parametrize("workers", [1, 2])
def test_an_address_that_others_reach_needs_a_key(tmp_path, refused, workers):
    """Also of several workers, before anybody is answered."""
    given = ("--port", reserved_port(), "--data-dir", tmp_path / "data")
    said = refused("serve", "--workers", workers, "--host", "0.0.0.0", *given)

    assert "set SIROCCO_BOOTSTRAP_ADMIN_KEY, or make keys" in said


def test_a_worker_that_counts_other_things_does_not_start(called):
    """Of newer code or other settings: its figures would get mixed up with those of the others."""
    file = new_file(2)
    WorkerSlot.shared(file, 2, 1).counters(MetricLayout.of(["/v1/other"], ["click"]))
    listening = socket.create_server(("127.0.0.1", 0))

    inherited = f"{listening.detach()},{file},2,0"
    run = called("serve", "--as-worker", inherited, SIROCCO_REDIS_URL="unix:///nowhere")
    os.close(file)

    assert run.returncode == 1
    assert "stop sirocco and start it again" in run.stderr
