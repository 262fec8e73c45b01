"""The last few published versions in memory, atlases unpacked, and which of them served when."""

import logging
import math
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.storage.errors import CorruptVersion, UnknownVersion
from app.storage.versions import Versions
from app.worker.hours import SECONDS, version_as_of
from calibrators import Atlas

_log = logging.getLogger(__name__)
# What serves, what served when the newest hour began and the hour before, and what comes next.
_KEPT = 4


@dataclass(frozen=True, slots=True)
class CachedVersion:
    """The moment no map of a version has seen beyond, its atlases, its report of each target."""

    as_of: float = -math.inf
    atlases: Mapping[str, Atlas] = field(default_factory=dict)
    targets: Mapping[str, Any] = field(default_factory=dict)

    def only(self, targets: Collection[str]) -> "CachedVersion":
        """What it holds of these targets, which says nothing of the moment."""
        return CachedVersion(
            atlases={name: self.atlases[name] for name in targets if name in self.atlases},
            targets={name: self.targets[name] for name in targets if name in self.targets},
        )

    def beside(self, other: "CachedVersion") -> "CachedVersion":
        """What both hold, of different targets; the moment is its own."""
        atlases = {**self.atlases, **other.atlases}
        return CachedVersion(self.as_of, atlases, {**self.targets, **other.targets})


class AtlasCache:
    """Loads a version once; holds the last few."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._held: OrderedDict[str, CachedVersion] = OrderedDict()

    def take(self, version: str) -> CachedVersion | None:
        """The version, or None when it is damaged or not kept any more."""
        if version not in self._held:
            try:
                self.put(version, self.load(version))
            except (CorruptVersion, UnknownVersion, ValueError) as error:
                _log.error("version %s cannot be read: %s", version, error)
                return None
        self._held.move_to_end(version)
        return self._held[version]

    def before(
        self, moment: float, history: Sequence[Mapping[str, Any]], kept: int
    ) -> CachedVersion | None:
        """The newest version whose maps have seen nothing after the moment, by a history that
        holds `kept` versions at most, newest first; None when that cannot be known any more."""
        version = version_as_of(history, moment)
        if version is not None:
            return self.take(version)
        # A full history has dropped versions; before the very first the identity served.
        return None if len(history) >= kept else CachedVersion()

    def serving(
        self, hour: int, history: Sequence[Mapping[str, Any]], kept: int
    ) -> CachedVersion | None:
        """What an hour is evaluated with: `before` its beginning."""
        return self.before(hour * SECONDS, history, kept)

    def put(self, version: str, cached: CachedVersion) -> None:
        """Keep what was just loaded or published."""
        self._held[version] = cached
        while len(self._held) > _KEPT:
            self._held.popitem(last=False)

    def load(self, version: str) -> CachedVersion:
        """The version, which is not held in memory; raises CorruptVersion, UnknownVersion, and
        ValueError on an atlas that cannot be read."""
        published = self._versions.load(version)
        atlases = {target: Atlas.from_bytes(data) for target, data in published.atlases.items()}
        return CachedVersion(published.as_of, atlases, published.report.get("targets", {}))
