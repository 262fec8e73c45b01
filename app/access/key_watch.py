"""The keys that a process knows, current to a second and with a copy on disk; who must have one.

The copy holds digests and no secrets. A process that starts while the store is away takes its keys
from there; a store that has lost all keys gets those back that this process had read from it.
"""

import logging
import threading
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, Self

import orjson
import redis

from app.access.key_store import KeyStore, StoredKeys, read_keys
from app.access.keys import KeyTable, digest_of
from app.settings import Settings, variable_of
from app.storage.errors import StorageUnavailable
from app.storage.redis.client import open_redis, store_of
from app.whole_files import write_durably

COPY: Final = "api-keys.json"
_LOOK_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class DamagedCopy(ValueError):
    """The file holds no keys that can be trusted."""


class KeyCopy:
    """The file of the keys in a folder, of the store at `redis_url` alone."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self._path = folder / COPY
        self._store = store_of(redis_url)

    def read(self) -> StoredKeys:
        """The keys; none without a file, or of another store. Raises DamagedCopy."""
        try:
            digest, _, content = self._path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise DamagedCopy(str(error)) from None
        if sha256(content).hexdigest().encode() != digest:
            raise DamagedCopy("its sha256 is wrong")
        found = orjson.loads(content)
        if found["store"] != self._store:
            return {}
        return {key_id: text.encode() for key_id, text in found["keys"].items()}

    def write(self, stored: StoredKeys) -> None:
        """Replace the file; raises OSError."""
        texts = {key_id: data.decode() for key_id, data in sorted(stored.items())}
        content = orjson.dumps({"store": self._store, "keys": texts})
        write_durably(self._path, [sha256(content).hexdigest().encode(), b"\n", content])


class KeyWatch:
    """Keeps `table` current in a thread of its own: a large version that is being read must not
    keep a revoked key alive.

    Keys are required as soon as there is one, and for as long as the process lives; `always`
    requires them from the start.
    """

    def __init__(
        self, store: KeyStore, copy: KeyCopy | None, bootstrap: str | None, *, always: bool = False
    ) -> None:
        required = always or bootstrap is not None
        self.table = KeyTable({}, digest_of(bootstrap or token_hex()), required)
        self._store = store
        self._copy = copy
        self._stored: StoredKeys = {}
        self._copied: StoredKeys = {}
        self._copy_failed = False
        self._read_from_store = False
        self._looking = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keys", daemon=True)

    @classmethod
    def of(cls, settings: Settings, client: redis.Redis, redis_url: str, *, always: bool) -> Self:
        """The keys of a service with these settings, on the store at the URL."""
        folder, secret = settings.last_good_dir, settings.bootstrap_admin_key
        copy = None if folder is None else KeyCopy(folder, redis_url)
        bootstrap = None if secret is None else secret.get_secret_value()
        return cls(KeyStore(client), copy, bootstrap, always=always)

    def start(self) -> None:
        """Take the copy, look once, then go on looking."""
        self.begin()
        self._thread.start()

    def begin(self) -> bool:
        """Take the copy, and look once; whether the store answered."""
        try:
            if self._copy is not None and (stored := self._copy.read()):
                self._take(stored)
                self._copied = stored
        except (DamagedCopy, KeyError, ValueError) as error:
            _log.error("left out the copy of the API keys: %s", error)
            # There were keys: nobody comes in without one.
            self._replace_table({}, required=True)
        return self.look()

    def stop(self) -> None:
        """Ends the looking."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def look(self) -> bool:
        """Look once; whether the store answered. Never raises: what the store cannot tell stays as
        it was."""
        # Of two looks at a time, the one that read first could be the last to tell.
        with self._looking:
            try:
                self._follow(self._store.stored())
                self._keep()
            except StorageUnavailable:
                return False
            except Exception:
                # The thread must outlive whatever is stored.
                _log.exception("the API keys could not be read; those known stay")
            return True

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self.look()

    def _follow(self, stored: StoredKeys) -> None:
        if not stored and self._stored:
            if self._read_from_store:
                _log.error("the store had lost the API keys: they are back")
                self._store.restore(self._stored)
            return
        self._read_from_store = self._read_from_store or bool(stored)
        if stored != self._stored:
            self._take(stored)

    def _take(self, stored: StoredKeys) -> None:
        self._stored = stored
        self._replace_table(stored, required=bool(stored))

    def _replace_table(self, stored: StoredKeys, *, required: bool) -> None:
        before = self.table
        self.table = KeyTable(
            read_keys(stored), before.bootstrap_digest, before.required or required
        )

    def _keep(self) -> None:
        if self._copy is None or self._stored == self._copied:
            return
        try:
            self._copy.write(self._stored)
            self._copied, self._copy_failed = self._stored, False
        except OSError as error:
            # Told once: it is tried again each second.
            if not self._copy_failed:
                _log.error("the API keys have no copy on this host: %s", error)
            self._copy_failed = True


class PublicAddressRefused(ValueError):
    """The address is open to other machines, and there is no key to keep them out."""


def refuse_public_address(settings: Settings, redis_url: str) -> None:
    """Raises PublicAddressRefused unless the address is local or there are keys; while the store
    does not answer nobody knows, and nobody gets in without one."""
    if not settings.is_public:
        return
    with open_redis(redis_url, settings.redis_timeout_seconds) as client:
        watch = KeyWatch.of(settings, client, redis_url, always=False)
        if watch.begin() and not watch.table.required:
            raise PublicAddressRefused(
                f"{variable_of('host')} = {settings.host}: other machines could reach it, and there"
                f" is no API key; set {variable_of('bootstrap_admin_key')}, or make keys with"
                " `sirocco keys create` while the service listens on 127.0.0.1"
            )
