"""Calibration in the caller's own process, by an atlas that is kept current."""

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from ssl import SSLContext
from types import TracebackType
from typing import Final, Self

from numpy.typing import ArrayLike

from sirocco_client.atlas_keeper import AtlasKeeper, BeforeFirst, EdgeCounts
from sirocco_client.connections import Address, begins_anew_after_fork
from sirocco_client.errors import BadInput
from sirocco_client.requests import Campaigns, Floats

_JOIN_SECONDS: Final = 1.0
_MOST_DOUBLINGS: Final = 4


class EdgeCalibrator:
    """Holds the atlas of one target and looks up locally; a thread asks for changes.

    It asks every `refresh_seconds`, give or take half, by ETag: an atlas travels only when it has
    changed. When the service is away, has no version yet, or sends what cannot be read, the last
    atlas stays, and its age tells. Before the first atlas a look-up raises NoAtlas, or with
    `before_first="identity"` changes nothing. With `keep_in`, the atlas is kept in that file and a
    new process starts from it. Any number of threads may look up; in a forked child the thread
    begins anew.
    """

    def __init__(
        self,
        url: str,
        target: str,
        *,
        refresh_seconds: float = 5.0,
        stale_seconds: float = 60.0,
        before_first: BeforeFirst = "raise",
        keep_in: Path | str | None = None,
        timeout: float = 10.0,
        headers: Mapping[str, str] | None = None,
        verify: bool | SSLContext = True,
    ) -> None:
        if not refresh_seconds > 0:
            raise BadInput("refresh_seconds", "must be more than 0", refresh_seconds)
        self._refresh_seconds, self._stale_seconds = refresh_seconds, stale_seconds
        address = Address(url, 1, headers or {}, verify)
        file = None if keep_in is None else Path(keep_in)
        self._keeper = AtlasKeeper(address, target, before_first, file, timeout)
        self._begin()
        begins_anew_after_fork(self)

    def at(self, campaign: str, score: float) -> float:
        """Probability of one score in [0, 1]; raises BadInput on another, or NoAtlas."""
        return self._keeper.atlas.at(campaign, score)

    def __call__(self, campaigns: Campaigns, scores: ArrayLike) -> Floats:
        """Probabilities, shape (n,), of n scores with a campaign each or one for all; raises
        BadInput on scores outside [0, 1] or on unequal lengths, or NoAtlas."""
        return self._keeper.atlas(campaigns, scores)

    def level(self, campaign: str) -> str:
        """Which map serves the campaign: `campaign`, `target` or `identity`; raises NoAtlas."""
        return self._keeper.atlas.level(campaign)

    @property
    def version(self) -> str:
        """The version held; `none` before the first."""
        return self._keeper.label.version

    @property
    def age(self) -> float | None:
        """Seconds since the version held was published; None before the first."""
        return _since(self._keeper.label.published_at)

    @property
    def unconfirmed_seconds(self) -> float | None:
        """Seconds since the service last said that the version held is the one in force; None
        before the first."""
        return _since(self._keeper.label.confirmed_at)

    @property
    def stale(self) -> bool:
        """Whether the service has not confirmed the atlas for longer than `stale_seconds`."""
        unconfirmed = self.unconfirmed_seconds
        return unconfirmed is None or unconfirmed > self._stale_seconds

    @property
    def counts(self) -> EdgeCounts:
        """How the looks for a new atlas went so far."""
        return self._keeper.counts

    def wait(self, timeout: float) -> bool:
        """Wait for the first atlas; False if none has come within so many seconds."""
        return self._keeper.has_come.wait(timeout)

    def refresh(self) -> bool:
        """Look now; whether the service sent or confirmed an atlas. Raises nothing."""
        return self._keeper.refresh()

    def close(self) -> None:
        """Ends the refreshing; what is held still serves."""
        self._stopping.set()
        self._thread.join(_JOIN_SECONDS)

    def begin_anew(self) -> None:
        """In a forked child: the atlas is shared, thread and connection are not."""
        self._keeper.begin_anew()
        if not self._stopping.is_set():
            self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sirocco-edge", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._keeper.refresh()
        while not self._stopping.wait(self._pause()):
            self._keeper.refresh()
        self._keeper.close()

    def _pause(self) -> float:
        # What was refused comes whole again each time: not as often.
        slower = 2.0 ** min(self._keeper.refused_in_a_row, _MOST_DOUBLINGS)
        return self._refresh_seconds * slower * random.uniform(0.5, 1.5)


def _since(at: float | None) -> float | None:
    return None if at is None else max(0.0, time.time() - at)
