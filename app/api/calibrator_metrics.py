"""Gauges of what made the maps in force, and of what the guard held back."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.api.snapshot import Snapshot

Report = Mapping[str, Any]

_DECISIONS: Final = ("passed", "kept", "parent", "bounded")
_HELD: Final = _DECISIONS[1:]
_NOTES: Final = {
    "refit_frozen": ("frozen", "1 if the last refit froze levels: positives have collapsed."),
    "campaigns_jumped": ("jumps", "Campaigns whose PCOC jumped within the history."),
}


def calibrator_families(snapshot: Snapshot, heartbeat: Report | None) -> Iterator[Metric]:
    """All families: of the version's report by target, and of the worker's last sign."""
    reports = {target: snapshot.report_of(target) for target in snapshot.atlases}
    yield from _calibrators(reports)
    yield from _decisions(reports)
    yield from _notes(reports)
    yield _held((heartbeat or {}).get("guard", {}))


def _calibrators(reports: Mapping[str, Report]) -> Iterator[Metric]:
    labels = ["target", "calibrator"]
    info = GaugeMetricFamily(
        "sirocco_calibrator_info", "1 for what made the target's maps.", labels=labels
    )
    overridden = GaugeMetricFamily(
        "sirocco_campaigns_overridden", "Campaigns with a calibrator of their own.", labels=labels
    )
    for target, report in reports.items():
        if report.get("calibrator"):
            info.add_metric([target, report["calibrator"]], 1)
        for calibrator, number in (report.get("overridden") or {}).items():
            overridden.add_metric([target, calibrator], number)
    yield from (info, overridden)


def _decisions(reports: Mapping[str, Report]) -> Iterator[Metric]:
    labels = ["target", "decision"]
    campaigns = GaugeMetricFamily(
        "sirocco_guard_campaigns", "Campaigns by what became of their new maps.", labels=labels
    )
    targets = GaugeMetricFamily(
        "sirocco_guard_target", "1 for what became of the target's new map.", labels=labels
    )
    for target, report in reports.items():
        guarded = report.get("guard")
        if guarded:
            for decision in _DECISIONS:
                campaigns.add_metric([target, decision], guarded[decision])
                targets.add_metric([target, decision], float(guarded["target"] == decision))
    yield from (campaigns, targets)


def _notes(reports: Mapping[str, Report]) -> Iterator[Metric]:
    for name, (note, text) in _NOTES.items():
        family = GaugeMetricFamily(f"sirocco_{name}", text, labels=["target"])
        for target, report in reports.items():
            # Methods that fit campaign by campaign know neither.
            value = (report.get("method") or {}).get(note)
            if value is not None:
                family.add_metric([target], float(value))
        yield family


def _held(counted: Report) -> Metric:
    family = CounterMetricFamily(
        "sirocco_guard_held",
        "Maps held back since the worker began, over all refits and targets.",
        labels=["decision"],
    )
    for decision in _HELD if counted else ():
        family.add_metric([decision], counted.get(decision, 0))
    return family
