"""One server process."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from app.storage.redis import server
from app.storage.redis.server import RedisNotStarted, RedisProcess, socket_url
from tests.storage.odd_servers import answers


@pytest.fixture
def running(redis_binary, tmp_path) -> Iterator[RedisProcess]:
    """A server that answers."""
    process = RedisProcess(redis_binary, tmp_path, tmp_path / "redis.sock")
    try:
        list(process.starting())
        yield process
    finally:
        process.stop()


def test_a_frozen_server_is_killed_when_it_does_not_end(running, monkeypatch):
    """Who leaves must be able to leave."""
    monkeypatch.setattr(server, "STOP_SECONDS", 0.05)
    os.kill(running.process_id, signal.SIGSTOP)

    running.stop()

    assert running.exit_code == -signal.SIGKILL


def test_a_server_that_never_answers_is_an_error_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "START_SECONDS", 0.05)
    sleeper = tmp_path / "redis-server"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n")
    sleeper.chmod(0o755)
    process = RedisProcess(sleeper, tmp_path, tmp_path / "redis.sock")
    try:
        with pytest.raises(RedisNotStarted, match="did not start"):
            list(process.starting())
    finally:
        process.stop()


def test_nobody_else_may_use_the_socket(running, tmp_path):
    socket = tmp_path / "redis.sock"

    assert answers(socket_url(socket))
    assert socket.stat().st_mode & 0o077 == 0


def test_a_ctrl_c_in_the_terminal_does_not_reach_the_server(running):
    """Whoever started it still needs it to end in order."""
    assert os.getpgid(running.process_id) != os.getpgid(0)


def test_a_kill_of_the_look_at_the_version_ends_no_start(tmp_path):
    """`redis-server --version` that is killed is asked again, and never without end."""
    binary, killed = tmp_path / "redis-server", tmp_path / "killed"
    binary.write_text(
        f"#!/bin/sh\n[ -e {killed} ] || {{ touch {killed}; kill -9 $$; }}\necho v=7\n"
    )
    binary.chmod(0o700)

    assert server._version_text(binary) == "v=7\n"
    binary.write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(subprocess.CalledProcessError):
        server._version_text(binary)
