"""Keeps the worker's lease alive while a long refit runs."""

from threading import Event, Thread
from types import TracebackType
from typing import Self

from app.storage.errors import StorageUnavailable
from app.storage.lease import Lease


class LeaseKeeper:
    """Renews a lease in a thread of its own, three times in its life.

    When the lease is lost, `held` turns false; what the holder still tries to publish then is
    refused by the store itself.
    """

    def __init__(self, lease: Lease, life_seconds: float) -> None:
        self._lease = lease
        self._pause = life_seconds / 3
        self._stop = Event()
        self._thread = Thread(target=self._keep, name="lease-keeper", daemon=True)
        self.held = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _keep(self) -> None:
        while self.held and not self._stop.wait(self._pause):
            try:
                self.held = self._lease.renew()
            except StorageUnavailable:
                # The store may come back before the lease ends; it decides then.
                continue
