"""How the maps of a target are refitted: campaign by campaign, or all of them together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from calibrators.atlas import Atlas
from calibrators.history import History
from calibrators.sufficiency import Reason


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What a refit gives.

    Attributes
    ----------
    atlas : the maps to publish.
    trial : the same, as they would be if the newest hour of the history were not known: what the
        guard judges on that hour. None where it was not asked for.
    skipped : the campaigns of the window that got no map of their own, with the reason.
    memory : what the next refit of the same method may start from; it changes no result beyond the
        method's tolerance.
    notes : numbers for the report, as JSON has them.
    """

    atlas: Atlas
    trial: Atlas | None = None
    skipped: Mapping[str, Reason] = field(default_factory=dict)
    memory: object = None
    notes: Mapping[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """Fits the maps of a target from its history; holds its settings only."""

    @property
    def name(self) -> str:
        """As settings and reports name it."""

    @property
    def hours(self) -> int:
        """How many hours before the moment it looks at."""

    def refit(self, history: History, *, memory: object = None, trial: bool = False) -> Fitted:
        """The maps as of the history's moment; `memory` is that of an earlier refit, or None."""
