"""The last few published versions in memory, atlases unpacked, and which of them served when."""

import logging
import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from app.settings import SECONDS_PER_HOUR
from app.storage.errors import CorruptVersion, UnknownVersion
from app.storage.experiments import CHALLENGER_OF, Experiment
from app.storage.versions import Versions
from calibrators import Atlas
from calibrators.arms import CHALLENGER

_log = logging.getLogger(__name__)
# What serves, what served when the newest hour began and the hour before, and what comes next; of
# large ones, which take a kilobyte a map, what a refit every hour needs: it follows on one.
_KEPT, _LARGE_KEPT, _LARGE = 4, 2, 100_000


@dataclass(frozen=True, slots=True)
class Steering:
    """What a version holds of experiments, by target: their state, the maps on trial and the report
    on them; and the methods that were promoted. Nothing where nothing ever was on trial."""

    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)
    challengers: Mapping[str, Atlas] = field(default_factory=dict)
    trials: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, report: Mapping[str, Any], atlases: Mapping[str, Atlas]) -> Self:
        """Out of a version's report and all of its atlases."""
        experiments, targets = report.get("experiments", {}), report.get("targets", {})
        named = {target: CHALLENGER_OF(target) for target in experiments}
        return cls(
            experiments,
            report.get("methods", {}),
            {target: atlases[name] for target, name in named.items() if name in atlases},
            {target: targets.get(target, {}).get(CHALLENGER) or {} for target in experiments},
        )

    @property
    def report(self) -> dict[str, Any]:
        """The report's part about all targets; empty where there is nothing to say."""
        parts = {"experiments": dict(self.experiments), "methods": dict(self.methods)}
        return {name: part for name, part in parts.items() if part}

    def beside(self, reports: Mapping[str, Any]) -> dict[str, Any]:
        """The reports by target, with those on the maps on trial."""
        own = {
            name: {**reports.get(name, {}), CHALLENGER: row} for name, row in self.trials.items()
        }
        return {**reports, **own}

    @property
    def atlases(self) -> dict[str, Atlas]:
        """The maps on trial, as versions name them."""
        return {CHALLENGER_OF(target): atlas for target, atlas in self.challengers.items()}

    @property
    def moments(self) -> list[float]:
        """As of when the maps on trial were fitted."""
        moments = (self.trials[target].get("fitted_as_of") for target in self.challengers)
        return [moment for moment in moments if moment]


@dataclass(frozen=True, slots=True)
class CachedVersion:
    """The moment no map of a version has seen beyond, its atlases, its report of each target, and
    what it holds of experiments."""

    as_of: float = -math.inf
    atlases: Mapping[str, Atlas] = field(default_factory=dict)
    targets: Mapping[str, Any] = field(default_factory=dict)
    steering: Steering = field(default_factory=Steering)

    def fitted_as_of(self, target: str) -> float | None:
        """As of when the maps of a target were fitted, in epoch seconds, if that is known."""
        found = self.targets.get(target, {}).get("fitted_as_of")
        return None if found is None else float(found)

    def only(self, targets: Collection[str]) -> "CachedVersion":
        """What it holds of these targets, which says nothing of the moment, and its experiments."""
        return CachedVersion(
            atlases={name: self.atlases[name] for name in targets if name in self.atlases},
            targets={name: self.targets[name] for name in targets if name in self.targets},
            steering=self.steering,
        )

    def beside(self, other: "CachedVersion") -> "CachedVersion":
        """What both hold, of different targets; moment and experiments are its own."""
        atlases, targets = {**self.atlases, **other.atlases}, {**self.targets, **other.targets}
        return replace(self, atlases=atlases, targets=targets)


def version_as_of(history: Iterable[Mapping[str, Any]], moment: float) -> str | None:
    """The newest version fitted on nothing after the moment; `history` is newest first."""
    fitted_before = (entry for entry in history if entry["as_of"] <= moment)
    newest = max(fitted_before, key=lambda entry: entry["as_of"], default=None)
    return None if newest is None else str(newest["version"])


class AtlasCache:
    """Loads a version once, holds the last few, and knows whether a newer release wrote any."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._held: OrderedDict[str, CachedVersion] = OrderedDict()
        self.any_newer = False

    def take(self, version: str) -> CachedVersion | None:
        """The version, or None when it is damaged or not kept any more."""
        if version not in self._held:
            try:
                self.put(version, self.load(version))
            except (CorruptVersion, UnknownVersion, ValueError) as error:
                self.any_newer = self.any_newer or isinstance(error, ValueError)
                _log.error("version %s cannot be read: %s", version, error)
                return None
        self._held.move_to_end(version)
        return self._held[version]

    def serving(self, hour: int, history: Sequence[Mapping[str, Any]]) -> CachedVersion | None:
        """What an hour is evaluated with: the newest version whose maps have seen nothing after its
        beginning, by a history, newest first; None when that cannot be known any more."""
        version = version_as_of(history, hour * SECONDS_PER_HOUR)
        if version is not None:
            return self.take(version)
        # A full history has dropped versions; before the very first the identity served.
        return None if len(history) >= self._versions.kept else CachedVersion()

    def put(self, version: str, cached: CachedVersion) -> None:
        """Keep what was just loaded or published."""
        self.make_room()
        self._held[version] = cached

    def make_room(self) -> None:
        """Let go of what was taken longest ago where there is no room for one more."""
        sizes = (sum(map(len, each.atlases.values())) for each in self._held.values())
        most = _LARGE_KEPT if max(sizes, default=0) > _LARGE else _KEPT
        while len(self._held) >= most:
            self._held.popitem(last=False)

    def load(self, version: str) -> CachedVersion:
        """The version, which is not held in memory; raises CorruptVersion, UnknownVersion, and
        ValueError on an atlas that cannot be read."""
        published = self._versions.load(version)
        read = {name: Atlas.from_bytes(data) for name, data in published.atlases.items()}
        steering = Steering.of(published.report, read)
        own = {name: atlas for name, atlas in read.items() if name not in steering.atlases}
        return CachedVersion(published.as_of, own, published.report.get("targets", {}), steering)
