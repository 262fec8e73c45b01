"""Keeps the snapshot current: a thread that looks for a new version and swaps one reference."""

import logging
import sys
import threading
from collections.abc import Sequence
from typing import Final

from app.api.busy_poll import Polled
from app.api.pace import Pace, seconds_of_others
from app.api.snapshot import Snapshot
from app.storage.errors import CorruptVersion, StorageUnavailable, UnknownVersion
from app.storage.heartbeat import Heartbeat
from app.storage.notices import Notices
from app.storage.versions import Published, Versions

logger = logging.getLogger(__name__)

_JOIN_SECONDS: Final = 5.0
# A thread that reads a version keeps the requests waiting for at most so long at a time; Python's
# own 5 ms, paid again and again while a large version is read, would show in the tail.
_SWITCH_SECONDS: Final = 0.0005


class Refresher:
    """Serves `current` while it watches the versions: it looks at every notice of a new one, and
    every `pause_seconds`, because a notice may be missed.

    When the store is away the last snapshot stays. A version that cannot be read is refused once,
    counted, and the one before it stays. What the event loop has `polled` is no work that a version
    being read would hold up. With every look it reads the `heartbeat`, so that nobody who asks for
    `failed_refits`, how many in a row the worker says have failed, waits for the store.
    """

    def __init__(
        self,
        versions: Versions,
        notices: Notices,
        targets: Sequence[str],
        pause_seconds: float,
        polled: Polled | None = None,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self.current = Snapshot.before_the_first(targets)
        self.store_seen = False
        self.store_up = False
        self.refused_versions = 0
        self.failed_refits = 0
        self._versions = versions
        self._notices = notices
        self._published: Published | None = None
        self._targets = targets
        self._pause_seconds = pause_seconds
        self._polled = polled or Polled()
        self._heartbeat = heartbeat
        self._refused: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresher", daemon=True)

    def start(self) -> None:
        """Look once, so that what is published is served from the first request on; then watch."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        self.refresh()
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch."""
        self._stopping.set()
        self._notices.close()
        self._thread.join(_JOIN_SECONDS)

    def refresh(self) -> None:
        """Look once, and take the version in force if it is another; never raises."""
        try:
            self._take(self._versions.current())
            self._found_store(True)
            self._count_failed_refits()
        except StorageUnavailable as error:
            self._found_store(False, str(error))
        except Exception:
            # The thread must outlive whatever a version does to it.
            logger.exception("the refresh failed; still serving %s", self.current.version)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._notices.wait(self._pause_seconds)
            self.refresh()
        self._notices.release()

    def _take(self, version: str | None) -> None:
        if version is None or version in (self.current.version, self._refused):
            return
        try:
            pause = Pace(lambda: seconds_of_others(self._polled))
            published = self._versions.load(version, self._published, pause)
            self.current = Snapshot.of(published, self._targets, self.current, pause)
            self._published = published
        except UnknownVersion:
            # It was dropped between the two reads: the next look finds its successor.
            return
        except (CorruptVersion, ValueError) as error:
            self._refuse(version, error)
        else:
            logger.info("serving version %s", version)

    def _refuse(self, version: str, error: Exception) -> None:
        self._refused = version
        self.refused_versions += 1
        logger.error("refused %s, still serving %s: %s", version, self.current.version, error)

    def _count_failed_refits(self) -> None:
        try:
            state = self._heartbeat.read() if self._heartbeat else None
        except StorageUnavailable:
            # Whether the store is away is for the look at the versions to say.
            state = None
        failed = (state or {}).get("consecutive_failures")
        self.failed_refits = failed if isinstance(failed, int) else 0

    def _found_store(self, up: bool, reason: str = "") -> None:
        if not up and (self.store_up or not self.store_seen):
            logger.warning("the store is away, serving %s: %s", self.current.version, reason)
        self.store_seen = self.store_seen or up
        self.store_up = up
