"""`sirocco up`: processes that are kept alive, and gone when it is gone."""

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import httpx
import orjson
import pytest

from app.storage.redis.client import open_redis
from app.storage.redis.server import Standing, find_redis_binary, socket_url, standing
from tests.command_line.conftest import SECONDS, Started
from tests.loopback import LOOPBACK
from tests.reserved_ports import reserved_port
from tests.storage.slow_redis import fill, slow_redis

NAMES = ("redis-server", "worker", "serve")


def wait_until(holds: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def up(started: Started, folder: Path) -> tuple[Popen[str], str]:
    """A running service and its address."""
    port = reserved_port()
    process = started("up", "--json", "--port", port, "--data-dir", folder, "--bin-size", "50")
    assert process.stdout is not None
    announced = process.stdout.readline()
    if not announced:
        raise AssertionError(process.communicate(timeout=SECONDS)[1])
    return process, orjson.loads(announced)["API"].removesuffix("/docs")


def children(process: Popen[str]) -> dict[str, int]:
    """The process ids of the children, by what they are; one that has ended is none."""
    found = {}
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        try:
            command = Path(f"/proc/{child}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        words = {Path(word).name for word in re.split("[ \0]", command)}
        found.update({name: int(child) for name in NAMES if name in words})
    return found


def runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_ready(url: str) -> bool:
    try:
        answer = httpx.get(f"{url}/readyz", **LOOPBACK)
    except httpx.TransportError:
        return False
    return bool(answer.json()["status"] == "ready")


def post_outcomes(url: str, count: int = 200) -> None:
    usual = {
        "type": "outcome",
        "campaign": "a",
        "target": "click",
        "occurred_at": time.time() // 3600 * 3600 - 1,
        "score": 0.5,
    }
    events = [{**usual, "outcome": float(number % 4 == 0)} for number in range(count)]
    answer = httpx.post(f"{url}/v1/events", json=events, **LOOPBACK)
    assert answer.json()["accepted"] == count, answer.text


def calibrated(url: str) -> float:
    body = {"target": "click", "campaign": "a", "scores": [0.5]}
    answer = httpx.post(f"{url}/v1/calibrate", json=body, **LOOPBACK)
    return float(answer.json()["probabilities"][0])


def versions(url: str) -> set[str]:
    answer = httpx.get(f"{url}/v1/admin/versions", **LOOPBACK).json()
    return {kept["version"] for kept in answer["versions"]}


@pytest.mark.slow
def test_a_child_that_dies_is_started_again(tmp_path, started):
    """Also in a folder that holds packages of the names of ours; and all are gone after Ctrl-C."""
    for name in ("app", "evaluation"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    process, url = up(started, tmp_path / "data")

    for name in NAMES:
        before = children(process)
        os.kill(before[name], signal.SIGKILL)
        wait_until(lambda: not runs(before[name]), f"{name} is gone")  # noqa: B023
        wait_until(lambda: len(children(process)) == len(NAMES), f"{name} is back")
        wait_until(lambda: is_ready(url), "ready again")

        after = children(process)
        assert {other for other in NAMES if after[other] != before[other]} == {name}
    post_outcomes(url)
    last_words = nothing_is_left_after(process, signal.SIGINT)
    assert process.returncode == 0
    assert last_words.endswith("sirocco is down\n")


def nothing_is_left_after(process: Popen[str], number: signal.Signals) -> str:
    """What it says when the signal ends it, and all its children with it."""
    running = children(process)
    process.send_signal(number)
    last_words = process.communicate(timeout=SECONDS)[1]

    assert len(running) == len(NAMES)
    wait_until(lambda: not any(map(runs, running.values())), "every child is gone")
    return last_words


def test_a_port_in_use_is_told(tmp_path, refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        said = refused("up", "--port", port, "--data-dir", tmp_path / "data")

    assert f"cannot listen on port {port} of 127.0.0.1: choose another" in said
    assert not (tmp_path / "data").exists()


def test_serve_and_worker_share_a_data_directory(tmp_path, started, called):
    """Two terminals, no Redis to install: the second command joins the server of the first."""
    port = reserved_port()
    started("worker", "--data-dir", tmp_path / "data")
    started("serve", "--data-dir", tmp_path / "data", "--port", port)
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: is_ready(url), "ready")
    post_outcomes(url)

    run = called("retrain", "--url", url)

    assert run.stdout.startswith("version 0000")
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.slow
def test_calibration_goes_on_while_redis_is_killed_again_and_again(
    tmp_path, environment, started, called
):
    """Also while it loads its file, twice in a row, and with the worker gone as well; and what was
    learnt survives a restart of all."""
    slow = slow_redis(tmp_path / "bin", find_redis_binary())
    environment["PATH"] = f"{slow.parent}:{environment['PATH']}"
    process, url = up(started, tmp_path / "data")
    post_outcomes(url)
    called("retrain", "--url", url, "--target", "click")
    wait_until(lambda: calibrated(url) < 0.4, "the new version serves")
    learnt = versions(url)
    with open_redis(socket_url(tmp_path / "data/redis.sock")) as client:
        fill(client)
    (slow.parent / "slow").touch()

    for name in ("redis-server", "redis-server", "worker", "redis-server"):
        os.kill(children(process)[name], signal.SIGKILL)
        loads = lambda: standing(socket_url(tmp_path / "data/new-redis.sock"))  # noqa: E731
        wait_until(lambda: loads() is Standing.LOADING, "the next one loads")  # noqa: B023
        assert calibrated(url) < 0.4

    wait_until(lambda: is_ready(url), "ready again")
    wait_until(lambda: len(children(process)) == len(NAMES), "all are back")
    post_outcomes(url)
    (slow.parent / "slow").unlink()
    process.send_signal(signal.SIGTERM)
    last_words = process.communicate(timeout=SECONDS)[1]

    _, url = up(started, tmp_path / "data")

    assert process.returncode == 0, last_words
    wait_until(lambda: calibrated(url) < 0.4, "the old version serves again")
    assert learnt <= versions(url)


@pytest.mark.slow
def test_whoever_is_killed_at_the_start_is_started_again(tmp_path, started):
    """And all are gone when their parent is killed."""
    port = reserved_port()
    process = started("up", "--json", "--port", port, "--data-dir", tmp_path / "data")
    for name in NAMES:
        wait_until(lambda: children(process).get(name), f"{name} has started")  # noqa: B023
        os.kill(children(process)[name], signal.SIGKILL)

    wait_until(lambda: is_ready(f"http://127.0.0.1:{port}"), "ready")
    assert process.poll() is None
    wait_until(lambda: len(children(process)) == len(NAMES), "all run")
    nothing_is_left_after(process, signal.SIGKILL)
