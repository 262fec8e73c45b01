"""The Redis that a command works with."""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.cli.serving.processes import Supervision
from app.errors import FAILED, CommandError
from app.settings import Settings, variable_of
from app.storage.errors import StorageUnavailable
from app.storage.redis.client import check_options, open_redis
from app.storage.redis.server import (
    POLL_SECONDS,
    EmbeddedRedis,
    NoRedisBinary,
    RedisNotStarted,
    Standing,
)
from app.storage.store_watch import UNSAFE, store_dangers


class EmbeddedStore:
    """The embedded Redis of a data directory, as something to supervise.

    It comes back at the address that its clients know, and may take its time to load its file.
    """

    name = "Redis"

    def __init__(self, data_dir: Path) -> None:
        self.url = ""
        self.last_output = ""
        self._data_dir = data_dir
        self._redis = EmbeddedRedis(data_dir)
        self._starting: Generator[Standing] | None = None
        self._failure: int | None = None
        self._standing = Standing.AWAY

    def start(self) -> None:
        """Begin to start the server, or to join it; every look at `exit_code` goes on with it."""
        self._give_up()
        self._redis.end()
        self._failure, self.last_output, self._standing = None, "", Standing.AWAY
        self._starting = self._redis.starting()
        self._go_on()

    @property
    def is_under_way(self) -> bool:
        """Whether it has an address, at which it answers or will once it has loaded its file."""
        return self.is_ready or self._standing is Standing.LOADING

    @property
    def is_ready(self) -> bool:
        """Whether it answers."""
        return self._standing is Standing.READY and self._redis.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """How the server ended; None while it runs, or comes to."""
        self._go_on()
        if self._standing is Standing.READY:
            return self._redis.exit_code
        return self._failure

    def stop(self) -> None:
        """End the server if it was started here."""
        self._give_up()
        self._redis.__exit__(None, None, None)

    def _go_on(self) -> None:
        if self._starting is None:
            return
        try:
            self._standing = next(self._starting, Standing.READY)
            if self._standing is not Standing.AWAY:
                self._take_address(self._redis.url)
            if self._standing is Standing.READY:
                self._starting = None
        except (NoRedisBinary, RedisNotStarted, OSError) as error:
            place = f"{variable_of('data_dir')} = {self._data_dir}"
            said = f"Redis did not start in {place}: {error}"
            self._fail(said, getattr(error, "exit_code", None) or FAILED)

    def _take_address(self, url: str) -> None:
        if self.url not in ("", url):
            self._give_up()
            self._fail("Redis came back at another address: start sirocco again")
        self.url = self.url or url

    def _fail(self, reason: str, exit_code: int = FAILED) -> None:
        self._starting, self._standing = None, Standing.AWAY
        # Its log says nothing of who killed it.
        self._failure, self.last_output = exit_code, "" if exit_code < 0 else reason

    def _give_up(self) -> None:
        if self._starting is not None:
            self._starting.close()
            self._starting = None


def embedded_store(settings: Settings, supervision: Supervision) -> EmbeddedStore:
    """The embedded Redis among the processes; it has an address, and may still load its file."""
    store = supervision.add(EmbeddedStore(settings.data_dir))
    supervision.begin(lambda: store.is_under_way)
    return store


def external_store(settings: Settings) -> str | None:
    """The address of the Redis of the settings, if they name one; `CommandError` if it is unsafe.

    One that does not answer now may be safe: the service looks again while it runs.
    """
    if not settings.redis_url:
        return None
    try:
        check_options(settings.redis_url)
    except ValueError as error:
        raise CommandError(f"{variable_of('redis_url')}: {error}") from None
    with (
        suppress(StorageUnavailable),
        open_redis(settings.redis_url, settings.redis_timeout_seconds) as client,
    ):
        dangers, _ = store_dangers(client)
        reasons = [UNSAFE[danger] for danger in dangers if danger in UNSAFE]
        if reasons:
            raise CommandError(f"{variable_of('redis_url')}: {'; '.join(reasons)}")
    return settings.redis_url


@contextmanager
def opened_store(settings: Settings) -> Iterator[str]:
    """The address of the Redis of the settings, or of an embedded one that ends with the block."""
    url = external_store(settings)
    if url is not None:
        yield url
        return
    store = EmbeddedStore(settings.data_dir)
    store.start()
    try:
        while not store.is_ready:
            if store.exit_code is not None:
                raise CommandError(store.last_output or "Redis was killed at its start", FAILED)
            time.sleep(POLL_SECONDS)
        yield store.url
    finally:
        store.stop()
