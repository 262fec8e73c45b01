"""One redis-server process on a unix socket, tied to the life of the process that started it."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from redis.exceptions import RedisError

from app.storage.connection import open_redis

START_SECONDS = 60.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.005

_PR_SET_PDEATHSIG = 1
_LOG_TAIL = 5
_CUT = b"Truncating the AOF"


class RedisNotStarted(RuntimeError):
    """The server did not start; the message holds the end of its log."""


class RedisProcess:
    """A running server: append-only file, no eviction, no TCP port.

    Start it from a thread that lives as long as the server should: Linux ends it with that thread.
    """

    def __init__(self, binary: Path, data_dir: Path, socket: Path) -> None:
        _refuse_newer_files(binary, data_dir)
        self._log = data_dir / "redis.log"
        self._logged_before = self._log.stat().st_size if self._log.exists() else 0
        self._url = socket_url(socket)
        self._process = subprocess.Popen(
            [str(binary), *_options(data_dir, socket, self._log)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A Ctrl-C in the terminal is for us: we end the server once we are done with it.
            process_group=0,
            preexec_fn=_death_with_parent(),
        )

    @property
    def process_id(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the server ended; None while it runs."""
        return self._process.poll()

    def wait_until_ready(self) -> None:
        """Return once the server answers, its file loaded; raises RedisNotStarted."""
        deadline = time.monotonic() + START_SECONDS
        while not answers(self._url):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RedisNotStarted(f"redis-server did not start: {self._last_words()}")
            time.sleep(POLL_SECONDS)

    @property
    def has_cut_its_file(self) -> bool:
        """Whether the end of its file was no whole command, and was left out."""
        with self._log.open("rb") as log:
            log.seek(self._logged_before)
            return _CUT in log.read()

    def stop(self) -> None:
        """End the server as its SHUTDOWN does, everything written; kill it if it does not end."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        lines = [line for line in text.splitlines() if line.strip()]
        return " / ".join(lines[-_LOG_TAIL:]) or f"exit code {self._process.returncode}"


def socket_url(socket: Path) -> str:
    """The unix:// URL of a socket."""
    return f"unix://{quote(str(socket))}"


def answers(url: str) -> bool:
    """Whether a server answers at the URL and has loaded its file."""
    with open_redis(url) as client:
        try:
            return bool(client.ping())
        except (RedisError, OSError):
            return False


def _options(data_dir: Path, socket: Path, log: Path) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data_dir),
        "logfile": str(log),
        "appendonly": "yes",
        # `everysec` puts writes off while an fsync runs: a killed server then loses acknowledged
        # events. Here the answer waits for the disk, once for all requests that came together.
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _death_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None  # pragma: no cover
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def tie() -> None:  # pragma: no cover (runs between fork and exec)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return tie


def _refuse_newer_files(binary: Path, data_dir: Path) -> None:
    """Redis 7 keeps its file in a folder that Redis 6 would pass over: it would start empty."""
    if not (data_dir / "appendonlydir").exists():
        return
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\d+)", said)
    if found and int(found[1]) < 7:
        raise RedisNotStarted(
            f"{data_dir} was written by Redis 7 or newer, {binary} is version {found[1]}: "
            "put the newer redis-server on PATH, or choose another data directory"
        )
