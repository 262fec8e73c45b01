"""The private Redis of a data directory: real Redis, nothing to install.

What was acknowledged survives a kill of the server and a crash of the machine. The first process to
open a data directory starts its server and ends it; others that open it meanwhile join it.
"""

import fcntl
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from redis.exceptions import RedisError

from app.storage.connection import open_redis
from app.storage.redis_binary import find_redis_binary
from app.storage.redis_process import (
    POLL_SECONDS,
    START_SECONDS,
    RedisNotStarted,
    RedisProcess,
    answers,
    socket_url,
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
