"""The last good maps of this host, on its own disk: what an API process starts from where the store
is away, empty, or holds a damaged version.

Two files: the newest whole version that was served, and the one before. Of all processes that share
the folder one writes, for as long as it lives; all of them read.
"""

import fcntl
import logging
import os
import struct
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, Final

import orjson

from app.storage.redis.client import store_of
from app.storage.versions import Published
from app.whole_files import write_durably

MAGIC: Final = b"SLGV"
SCHEMA_VERSION: Final = 1
NEWEST, BEFORE = "last-good.maps", "last-good-before.maps"
_LOCK: Final = "lock"
# Behind it: the length of the manifest, the manifest as JSON, and the atlases one after the other.
# The digest is of all of that.
_HEADER: Final = struct.Struct("<4sH32s")
_LENGTH: Final = struct.Struct("<I")
_PIECE_BYTES: Final = 256 * 1024
_RETRY_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


class UnusableFile(ValueError):
    """It is damaged, of a format that is not known here, or of another store."""


class LastGood:
    """The two files of a folder; what is of another store than the one at `redis_url` is not read.
    `failures` counts writes that failed; each is tried again after a minute, by `clock`."""

    def __init__(
        self, folder: Path, redis_url: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self.failures = 0
        self._store = store_of(redis_url)
        self._folder = folder
        self._clock = clock
        self._lock: BinaryIO | None = None
        self._kept: str | None = None
        self._not_before = clock()

    def read(self) -> Published | None:
        """The newest version that is whole; logs what is not."""
        for name in (NEWEST, BEFORE):
            try:
                return unpacked((self._folder / name).read_bytes(), self._store)
            except FileNotFoundError:
                continue
            except (OSError, UnusableFile) as error:
                _log.error("left out %s: %s", self._folder / name, error)
        return None

    def keep(self, published: Published, pause: Callable[[], None]) -> None:
        """Have the newest file be this version, unless another process sees to it; `pause` is
        called between pieces of the work. Never raises: a disk that is full must not stop maps."""
        if published.version == self._kept or self._clock() < self._not_before:
            return
        try:
            if self._is_writer():
                self._write(published, pause)
                self._kept = published.version
        except OSError as error:
            self.failures += 1
            self._not_before = self._clock() + _RETRY_SECONDS
            _log.error("cannot keep %s in %s: %s", published.version, self._folder, error)

    def close(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _is_writer(self) -> bool:
        if self._lock is not None:
            return True
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        lock = os.fdopen(os.open(self._folder / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600), "wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._lock = lock
        # What a writer that was killed left.
        for left in self._folder.glob(".*.tmp"):
            left.unlink()
        return True

    def _write(self, published: Published, pause: Callable[[], None]) -> None:
        newest, before = self._folder / NEWEST, self._folder / BEFORE
        found = _version_of(newest, pause)
        if found == published.version:
            return
        if found is not None:
            # A process that starts in between reads this one.
            newest.replace(before)
        write_durably(newest, _paced(packed(published, self._store, pause), pause))


def packed(published: Published, store: str, pause: Callable[[], None]) -> list[bytes]:
    """The bytes of a version of that store, in parts; `pause` as in `LastGood.keep`."""
    manifest = {
        "store": store,
        "version": published.version,
        "as_of": published.as_of,
        "published_at": published.published_at,
        "atlases": {target: len(data) for target, data in published.atlases.items()},
        "report": published.report,
    }
    about = orjson.dumps(manifest, option=orjson.OPT_SERIALIZE_NUMPY)
    parts = [_LENGTH.pack(len(about)), about, *published.atlases.values()]
    return [_HEADER.pack(MAGIC, SCHEMA_VERSION, _digest(parts, pause)), *parts]


def unpacked(data: bytes, store: str) -> Published:
    """The version of these bytes; raises UnusableFile, also on one of another store."""
    about, start = _checked(data)
    if about["store"] != store:
        raise UnusableFile(f"it is of the store {about['store']}, not {store}")
    atlases = {}
    for target, size in about["atlases"].items():
        atlases[target] = data[start : start + size]
        start += size
    digests = {target: sha256(atlas).hexdigest() for target, atlas in atlases.items()}
    times = about["as_of"], about["published_at"]
    return Published(about["version"], *times, atlases, about["report"], digests)


def _checked(data: bytes, pause: Callable[[], None] = lambda: None) -> tuple[dict[str, Any], int]:
    """The manifest, and where the atlases begin."""
    if len(data) < _HEADER.size + _LENGTH.size or data[:4] != MAGIC:
        raise UnusableFile(f"it does not begin with {MAGIC.decode()}")
    _, schema_version, digest = _HEADER.unpack_from(data)
    if schema_version != SCHEMA_VERSION:
        raise UnusableFile(f"schema_version {schema_version}: only {SCHEMA_VERSION} is known")
    if _digest([data], pause, _HEADER.size) != digest:
        raise UnusableFile("its sha256 is wrong")
    start = _HEADER.size + _LENGTH.size
    behind = start + _LENGTH.unpack_from(data, _HEADER.size)[0]
    return orjson.loads(data[start:behind]), behind


def _version_of(path: Path, pause: Callable[[], None]) -> str | None:
    """The version that the file holds, if it is whole."""
    try:
        return str(_checked(path.read_bytes(), pause)[0]["version"])
    except (OSError, UnusableFile):
        return None


def _digest(parts: list[bytes], pause: Callable[[], None], begin: int = 0) -> bytes:
    digest = sha256()
    for piece in _paced(parts, pause, begin):
        digest.update(piece)
    return digest.digest()


def _paced(parts: list[bytes], pause: Callable[[], None], begin: int = 0) -> Iterator[bytes]:
    for part in parts:
        for start in range(begin, len(part), _PIECE_BYTES):
            pause()
            yield part[start : start + _PIECE_BYTES]
