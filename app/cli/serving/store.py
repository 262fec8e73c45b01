"""The Redis that a command works with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import FAILED, CommandError
from app.settings import Settings
from app.storage.redis.server import EmbeddedRedis, NoRedisBinary, RedisNotStarted


class EmbeddedStore:
    """The embedded Redis of a data directory, as something to supervise."""

    name = "Redis"
    last_output = ""

    def __init__(self, data_dir: Path) -> None:
        self._redis = EmbeddedRedis(data_dir)
        self.url = ""

    def start(self) -> None:
        """Start or join the server; it must come back at the address its clients know."""
        before = self.url
        self.stop()
        try:
            self.url = self._redis.__enter__().url
        except (NoRedisBinary, RedisNotStarted, OSError) as error:
            raise CommandError(f"Redis did not start: {error}", FAILED) from error
        if before not in ("", self.url):
            raise CommandError("Redis came back at another address: start sirocco again", FAILED)

    @property
    def exit_code(self) -> int | None:
        """How the server ended; None while it runs."""
        return self._redis.exit_code

    def stop(self) -> None:
        """End the server if it was started here."""
        self._redis.__exit__(None, None, None)


@contextmanager
def opened_store(settings: Settings) -> Iterator[str]:
    """The address of the Redis of the settings, or of an embedded one that ends with the block."""
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    store = EmbeddedStore(settings.data_dir)
    store.start()
    try:
        yield store.url
    finally:
        store.stop()
