"""What an API process serves: one published version, whole, until the next replaces it.

`Refresher` keeps the snapshot current: a thread that looks for a new version and swaps one
reference, at the pace (`Pace`) that requests leave.
"""

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, process_time, sleep, thread_time
from typing import Any, Final, Self

from app.api.last_good import LastGood
from app.columns.campaigns import CampaignIds
from app.storage.errors import CorruptVersion, StorageUnavailable, StoreDenied, UnknownVersion
from app.storage.experiments import CHALLENGER_OF, experiments_of, split_of
from app.storage.integrity.damage import FRESH_SECONDS
from app.storage.lease import Heartbeat
from app.storage.store_watch import StoreWatch
from app.storage.versions import Notices, Published, Versions, number_of
from calibrators import Atlas
from calibrators.arms import Split

NO_VERSION: Final = "none"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version in memory; immutable, so that a reader never sees half of another."""

    version: str = NO_VERSION
    as_of: float | None = None
    published_at: float | None = None
    atlases: Mapping[str, Atlas] = field(default_factory=dict)
    packed: Mapping[str, bytes] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    ids: Mapping[str, CampaignIds] = field(default_factory=dict)
    challengers: Mapping[str, Atlas] = field(default_factory=dict)
    """The maps on trial, by target, of those that have any; `packed` has their bytes."""
    splits: Mapping[str, Split] = field(default_factory=dict)
    """How traffic is split, by target, where it is; where the challenger has a share, the target is
    in `challengers`."""

    @classmethod
    def before_the_first(cls, targets: Iterable[str]) -> Self:
        """Serves the identity for every target: nothing has been published yet."""
        nothing = Published(NO_VERSION, 0.0, 0.0, {}, {})
        return cls(**_complete(nothing, targets, cls(), lambda: None))

    @classmethod
    def of(
        cls,
        published: Published,
        targets: Iterable[str],
        before: "Snapshot",
        pause: Callable[[], None] = lambda: None,
    ) -> Self:
        """The published version; targets without an atlas are served by the identity.

        What did not change since the snapshot `before` is shared with it. `pause` is called between
        pieces of the work. Raises ValueError on an atlas whose bytes cannot be read.
        """
        return cls(
            version=published.version,
            as_of=published.as_of,
            published_at=published.published_at,
            report=published.report,
            **_complete(published, targets, before, pause),
        )

    @property
    def has_maps(self) -> bool:
        """Whether any target has a map; without, all are served by the identity."""
        return any(len(atlas) or atlas.target_map for atlas in self.atlases.values())

    @property
    def restored(self) -> bool:
        """Whether the store had lost its versions, and this one was put back."""
        return "restored_at" in self.report

    def report_of(self, target: str) -> Mapping[str, Any]:
        """What the refit reported about the target; empty if it reported nothing."""
        found: Mapping[str, Any] = self.report.get("targets", {}).get(target, {})
        return found


def _complete(
    published: Published, targets: Iterable[str], before: Snapshot, pause: Callable[[], None]
) -> dict[str, Any]:
    packed, everywhere = published.atlases, Atlas.empty()
    tried = {CHALLENGER_OF(target): atlas for target, atlas in before.challengers.items()}
    earlier = {**before.atlases, **tried}

    def read(name: str) -> Atlas:
        data, known = packed[name], earlier.get(name)
        if known is not None and data is before.packed.get(name):
            return known
        return Atlas.from_bytes(data, known, pause)

    atlases = {target: read(target) if target in packed else everywhere for target in targets}
    running = {
        target: experiment
        for target, experiment in experiments_of(published.report).items()
        if target in atlases
        and (CHALLENGER_OF(target) in packed or not experiment.get("challenger"))
    }
    named = {target: CHALLENGER_OF(target) for target in running}
    challengers = {target: read(name) for target, name in named.items() if name in packed}
    splits = {name: split_of(one, before.splits.get(name)) for name, one in running.items()}
    names = [*atlases, *map(CHALLENGER_OF, challengers)]
    return {
        "atlases": atlases,
        "packed": {name: packed.get(name, everywhere.to_bytes()) for name in names},
        "ids": {name: CampaignIds.of(one, before.ids.get(name)) for name, one in atlases.items()},
        "challengers": challengers,
        "splits": {target: split for target, split in splits.items() if split is not None},
    }


_MOST_SECONDS: Final = 0.02
"""Even where requests take all of the core, the work goes on."""
_LEAST_SECONDS: Final = 0.0001
_LIGHT: Final = 1 / 3
"""Of a core: what needs no more than this has its room beside the work."""


def seconds_of_others() -> float:
    """CPU time that all threads of the process but this one have used."""
    return process_time() - thread_time()


class Pace:
    """To be called between the pieces of some work, which are of half a millisecond at most.

    Python gives threads that want to run the same time each, so work that goes on without a pause
    takes half of a core, of which requests may need more: they pile up until it is done. A call
    sleeps for as long as the other threads have worked since it last slept, unless that was little
    for the time. With requests that need a share u of the core, sleeps converge to u / (1 - u) of a
    piece, and the work at 1 - u.
    """

    def __init__(
        self,
        seconds_of_others: Callable[[], float],
        sleep: Callable[[float], None] = sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._seconds_of_others = seconds_of_others
        self._sleep = sleep
        self._clock = clock
        self._before, self._at = seconds_of_others(), clock()

    def __call__(self) -> None:
        """Wait for the others' turn."""
        others, now = self._seconds_of_others(), self._clock()
        worked, passed = others - self._before, now - self._at
        if worked >= _LEAST_SECONDS:
            self._before, self._at = others, now
            if worked > _LIGHT * passed:
                self._sleep(min(worked, _MOST_SECONDS))


logger = logging.getLogger(__name__)

_JOIN_SECONDS: Final = 5.0
# A thread that reads a version keeps the requests waiting for at most so long at a time; Python's
# own 5 ms, paid again and again while a large version is read, would show in the tail.
_SWITCH_SECONDS: Final = 0.0005


_FAILED_REFITS: Final = 2
"""A single failure is mended by the next try, a minute later; a second one in a row seldom is."""


class Refresher:
    """Serves `current` while it watches the versions: it looks at every notice of a new one, and
    every `pause_seconds`, because a notice may be missed.

    When the store is away the last snapshot stays. A version that cannot be read is refused once,
    counted, and the one before it stays; where there is none yet, the newest whole one of the store
    or of `last_good`, the files of this host, is served. A store that has lost its versions gets
    the present one back. With every look it reads the `heartbeat`, so that nobody who asks how
    refits go (`failed_refits`, `held`) waits for the store; and so does the `watch` look at the
    server.
    """

    def __init__(
        self,
        versions: Versions,
        notices: Notices,
        targets: Sequence[str],
        pause_seconds: float,
        heartbeat: Heartbeat | None = None,
        last_good: LastGood | None = None,
        watch: StoreWatch | None = None,
    ) -> None:
        self.watch = watch
        self.started_at = time.time()
        self.current = Snapshot.before_the_first(targets)
        self.store_seen = False
        self._told: object = ""
        self.store_up = False
        self.store_denied = False
        self.refused_versions = 0
        self.failed_refits = 0
        self.held = False
        self.worker: Mapping[str, Any] = {}
        self._damaged_at = -math.inf
        self.last_good = last_good
        self._versions = versions
        self._notices = notices
        self._published: Published | None = None
        self._targets = targets
        self._pause_seconds = pause_seconds
        self._heartbeat = heartbeat
        self._refused: str | None = None
        # Why the version in force is not what is served.
        self._fallback: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresher", daemon=True)

    @property
    def may_serve(self) -> bool:
        """Whether there are maps to serve, or there never were any."""
        return self.current.version != NO_VERSION or (self.store_seen and not self._fallback)

    def worker_phase(self, lease_seconds: float) -> str | None:
        """What the worker is at; None where none has given a sign of life for a whole lease."""
        silent = time.time() - self.worker.get("at", -math.inf)
        return None if silent > lease_seconds else self.worker.get("phase")

    @property
    def reasons(self) -> list[str]:
        """Why the service is worse than it should be; the first matters most."""
        dangers: Iterable[str] = () if self.watch is None else self.watch.dangers
        amiss: dict[str, object] = {
            "store-denied": self.store_denied,
            "store-away": not (self.store_up or self.store_denied),
            "store-refuses-writes": self.store_up and not self.store_takes_writes,
            "store-unreplicated": self.store_up and self.watch and self.watch.unreplicated,
            self._fallback or "": self._fallback,
            "store-emptied": self.current.restored,
            **dict.fromkeys(dangers, True),
            "store-damaged": time.time() - self._damaged_at < FRESH_SECONDS,
            "refits-failing": self.failed_refits >= _FAILED_REFITS,
            "refit-held": self.held,
        }
        return [reason for reason, is_so in amiss.items() if is_so]

    def start(self) -> None:
        """Look once, so that what is published is served from the first request on; then watch."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._take_last_good()
        self.refresh()
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch."""
        self._stopping.set()
        self._notices.close()
        self._thread.join(_JOIN_SECONDS)
        if self.last_good is not None:
            self.last_good.close()

    @property
    def store_takes_writes(self) -> bool:
        """Whether the store can be read, and stored the last write."""
        return self.store_up and (self.watch is None or self.watch.writable)

    def refresh(self) -> None:
        """Look once, and take the version in force if it is another; never raises."""
        try:
            self._look(self._versions.current())
            self._found_store(True)
            self._read_heartbeat()
            if self.watch is not None:
                self.watch.look()
        except StorageUnavailable as error:
            self._found_store(False, error)
            self._mend(error)
        except Exception:
            # The thread must outlive whatever a version does to it.
            logger.exception("the refresh failed; the maps stay as they are")

    def _mend(self, error: StorageUnavailable) -> None:
        """Where damage is what failed, the next look finds it set aside."""
        if self.watch is not None:
            self.watch.failed(error)
            with suppress(StorageUnavailable):
                self.watch.mend()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._keep()
            self._notices.wait(self._pause_seconds)
            self.refresh()
        self._notices.release()

    def _look(self, version: str | None) -> None:
        if version == self.current.version:
            self._fallback = None
        elif version is not None and version != self._refused:
            self._take(version)
        elif version is None and self._is_lost():
            self._fall_back("version-missing")
            self._restore(None)

    def _is_lost(self) -> bool:
        """Whether the store had a version in force and has none. One that came into force since
        the look is for the next."""
        known = self.current.version != NO_VERSION or self._versions.any_published()
        return known and self._versions.current() is None

    def _take(self, version: str) -> None:
        try:
            published, snapshot = self._load(version)
        except UnknownVersion:
            # It was dropped between the two reads, and the next look finds its successor; or it is
            # lost.
            self._refused = version
            self._fall_back("version-missing")
        except (CorruptVersion, ValueError) as error:
            self._refuse(version, error)
            self._fall_back("version-damaged")
        else:
            if not self._is_lost_by(snapshot) or not self._restore(version):
                self._serve(published, snapshot)

    def _load(self, version: str) -> tuple[Published, Snapshot]:
        pause = Pace(seconds_of_others)
        published = self._versions.load(version, self._published, pause)
        return published, Snapshot.of(published, self._targets, self.current, pause)

    def _serve(self, published: Published, snapshot: Snapshot) -> None:
        # In this order: a request in between must not see the new version with the old reason.
        self._fallback, self._published, self.current = None, published, snapshot
        logger.info("serving version %s", snapshot.version, extra={"version": snapshot.version})

    def _fall_back(self, reason: str) -> None:
        """Serve the newest whole version of the store, if what is served is older."""
        served = self.current.published_at
        for entry in self._versions.history():
            if served is not None and entry["published_at"] <= served:
                break
            try:
                self._serve(*self._load(entry["version"]))
                break
            except (CorruptVersion, UnknownVersion, ValueError) as error:
                logger.error("left out %s: %s", entry["version"], error)
        self._fallback = reason

    def _is_lost_by(self, found: Snapshot) -> bool:
        """Whether the store has lost the version that is served, and what it has in force now comes
        from none, or from a host that knew less."""
        served = self.current
        older = number_of(found.version) < number_of(served.version)
        if not older or not served.has_maps or (found.has_maps and not found.restored):
            return False
        return all(entry["version"] != served.version for entry in self._versions.history())

    def _restore(self, found: str | None) -> bool:
        """Put back what is served, in the place of what the store has in force."""
        if self._published is None or not self.current.has_maps:
            return False
        version = self._versions.restore(self._published, found, time.time())
        if version is not None:
            logger.error("the store had lost %s: it is back as %s", self.current.version, version)
            self._serve(*self._load(version))
        return True

    def _take_last_good(self) -> None:
        published = self.last_good.read() if self.last_good else None
        if published is None or not set(self._targets).intersection(published.atlases):
            return
        try:
            self._serve(published, Snapshot.of(published, self._targets, self.current))
            self._fallback = "serving-last-good"
        except ValueError as error:
            logger.error("left out the last good maps, %s: %s", published.version, error)

    def _keep(self) -> None:
        """After the version is in force, so that its requests wait for no disk; never raises."""
        try:
            if self.last_good and self._published and self.current.has_maps:
                self.last_good.keep(self._published, Pace(seconds_of_others))
        except Exception:
            logger.exception("the last good maps were not kept")

    def _refuse(self, version: str, error: Exception) -> None:
        self._refused = version
        self.refused_versions += 1
        logger.error("refused %s, still serving %s: %s", version, self.current.version, error)

    def _read_heartbeat(self) -> None:
        state = None
        # Whether the store is away is for the look at the versions to say.
        with suppress(StorageUnavailable):
            state = self._heartbeat.read() if self._heartbeat else None
        self.worker = state or {}
        failed = self.worker.get("consecutive_failures")
        self.failed_refits = failed if isinstance(failed, int) else 0
        self._damaged_at = self.worker.get("damaged", {}).get("at", -math.inf)
        self.held = bool(self.worker.get("held"))

    def _found_store(self, up: bool, error: StorageUnavailable | None = None) -> None:
        self.store_denied = isinstance(error, StoreDenied)
        state = "denies access" if self.store_denied else "is away"
        if not up and self._told != state:
            logger.warning("the store %s, serving %s: %s", state, self.current.version, error)
        self._told = "" if up else state
        self.store_seen = self.store_seen or up
        self.store_up = up
