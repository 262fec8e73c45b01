"""What an API process serves: one published version, whole, until the next replaces it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from app.columns.campaign_ids import CampaignIds
from app.storage.versions import Published
from calibrators import Atlas


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version in memory; immutable, so that a reader never sees half of another."""

    version: str = "none"
    as_of: float | None = None
    published_at: float | None = None
    atlases: Mapping[str, Atlas] = field(default_factory=dict)
    packed: Mapping[str, bytes] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    ids: Mapping[str, CampaignIds] = field(default_factory=dict)

    @classmethod
    def before_the_first(cls, targets: Iterable[str]) -> Self:
        """Serves the identity for every target: nothing has been published yet."""
        return cls(**_complete({}, targets, cls(), lambda: None))

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
            **_complete(published.atlases, targets, before, pause),
        )

    def age(self, now: float) -> float | None:
        """Seconds since this version was published; None before the first."""
        return None if self.published_at is None else max(0.0, now - self.published_at)

    def report_of(self, target: str) -> Mapping[str, Any]:
        """What the refit reported about the target; empty if it reported nothing."""
        found: Mapping[str, Any] = self.report.get("targets", {}).get(target, {})
        return found


def _complete(
    packed: Mapping[str, bytes],
    targets: Iterable[str],
    before: Snapshot,
    pause: Callable[[], None],
) -> dict[str, Any]:
    everywhere = Atlas.empty()
    read = {target: _read(data, target, before, pause) for target, data in packed.items()}
    atlases = {target: read.get(target, everywhere) for target in targets}
    ids = {name: CampaignIds.of(atlas, before.ids.get(name)) for name, atlas in atlases.items()}
    return {
        "atlases": atlases,
        "packed": {target: packed.get(target, everywhere.to_bytes()) for target in targets},
        "ids": ids,
    }


def _read(data: bytes, target: str, before: Snapshot, pause: Callable[[], None]) -> Atlas:
    if data is before.packed.get(target):
        return before.atlases[target]
    return Atlas.from_bytes(data, before.atlases.get(target), pause)
