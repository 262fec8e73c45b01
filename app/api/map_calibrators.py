"""Which calibrators made the maps of a version, as far as the report of its refit tells."""

from collections.abc import Mapping
from typing import Any, Final

from app.api.snapshot import Snapshot
from calibrators.atlas import CAMPAIGN, IDENTITY

_TOLD: Final = ("calibrator", "overridden", "guard", "method")
# Reports of earlier versions of sirocco have no decisions.
_PASSED: Final = ("passed", None)


def target_fit(snapshot: Snapshot, target: str) -> dict[str, Any]:
    """The calibrator of the target, how many campaigns have others, what the guard decided, and the
    numbers of the method, each None where the report does not say; and which of the largest
    campaigns the guard held back."""
    report = snapshot.report_of(target)
    decided = ((row["campaign"], row.get("decision")) for row in report.get("top", []))
    held = {campaign: decision for campaign, decision in decided if decision not in _PASSED}
    return {**{name: report.get(name) for name in _TOLD}, "held": held}


def map_calibrator(snapshot: Snapshot, target: str, campaign: str) -> str | None:
    """What made the map that serves the campaign; None for the identity, and where the report does
    not say."""
    level, report = snapshot.atlases[target].level(campaign), snapshot.report_of(target)
    if level == IDENTITY:
        return None
    whole: str | None = report.get("calibrator")
    own: Mapping[str, str] = report.get("overrides", {}) if level == CAMPAIGN else {}
    return own.get(campaign, whole)


def reports_of(snapshot: Snapshot, target: str) -> dict[str, dict[str, Any]]:
    """What the refit reported of the largest campaigns, by name."""
    return {row["campaign"]: row for row in snapshot.report_of(target).get("top", [])}
