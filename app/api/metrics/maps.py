"""Gauges read at scrape time from the version in force: what it is, and what its refit reported.

Gauges of what made the maps in force, and of what the guard held back.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.metrics.delayed import delayed_families
from app.api.snapshot import Refresher, Snapshot

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


_STAGES: Final = ("raw", "calibrated")
# Of delayed targets also the clicks whose outcomes have just become final.
_SPANS: Final = ("hour", "window", "matured")
_WORKER_COUNTS: Final = {
    "refits": "Refits published since the worker began.",
    "failures": "Refits that failed since the worker began; the version in force stayed.",
}
_ORDERS: Final = {"cal": (3, 5), "gc": (3, 4, 5)}


class MapCollector(Collector):
    """`read_heartbeat` gives the worker's last sign of life, or None when there is none."""

    def __init__(
        self,
        refresher: Refresher,
        read_heartbeat: Callable[[], Mapping[str, Any] | None],
        delayed_targets: Sequence[str] = (),
    ) -> None:
        self._refresher = refresher
        self._read_heartbeat = read_heartbeat
        self._delayed_targets = delayed_targets

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families, of one and the same snapshot."""
        snapshot, now = self._refresher.current, time.time()
        heartbeat = self._read_heartbeat()
        yield _gauge(
            "sirocco_refit_seconds",
            "How long its refit took.",
            snapshot.report.get("refit_seconds"),
        )
        yield from _worker(heartbeat, now)
        yield from _quality(snapshot)
        yield from _fits(snapshot)
        yield _top_campaigns(snapshot)
        yield from calibrator_families(snapshot, heartbeat)
        yield from delayed_families(snapshot, self._delayed_targets, heartbeat, now)


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    _add(family, [], value)
    return family


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    # An undefined value is no sample: NaN would hide in averages, zero would lie.
    if value is not None:
        family.add_metric(labels, float(value))


def _worker(heartbeat: Mapping[str, Any] | None, now: float) -> Iterator[Metric]:
    age = None if heartbeat is None else max(0.0, now - float(heartbeat["at"]))
    yield _gauge("sirocco_worker_heartbeat_age_seconds", "Since the worker's last sign.", age)
    for name, text in _WORKER_COUNTS.items():
        family = CounterMetricFamily(f"sirocco_worker_{name}", text)
        if heartbeat is not None:
            family.add_metric([], float(heartbeat.get(name, 0)))
        yield family
    failed = (heartbeat or {}).get("consecutive_failures")
    text = "Refits that failed since the last that worked."
    yield _gauge("sirocco_worker_consecutive_failures", text, failed)


def _quality(snapshot: Snapshot) -> Iterator[Metric]:
    labels = ["target", "stage", "span"]
    pcoc = GaugeMetricFamily("sirocco_pcoc", "Predicted over true outcomes.", labels=labels)
    errors = {
        name: GaugeMetricFamily(f"sirocco_{name}_n", text, labels=[*labels, "n"])
        for name, text in (("cal", "Cal-N of all."), ("gc", "Cal-N by campaign, averaged."))
    }
    for values, row in _judged(snapshot):
        _add(pcoc, values, row.get("pcoc"))
        for name, orders in _ORDERS.items():
            for order in orders:
                _add(errors[name], [*values, str(order)], row.get(f"{name}_{order}"))
    yield from (pcoc, *errors.values())


def _judged(snapshot: Snapshot) -> Iterator[tuple[list[str], Mapping[str, Any]]]:
    for target in snapshot.atlases:
        report = snapshot.report_of(target)
        for span in _SPANS:
            for stage in _STAGES:
                yield [target, stage, span], (report.get(span) or {}).get(stage) or {}


def _fits(snapshot: Snapshot) -> Iterator[Metric]:
    fitted = GaugeMetricFamily(
        "sirocco_campaigns_fitted", "Campaigns with a map of their own.", labels=["target"]
    )
    skipped = GaugeMetricFamily(
        "sirocco_campaigns_skipped", "Campaigns without, by reason.", labels=["target", "reason"]
    )
    for target in snapshot.atlases:
        report = snapshot.report_of(target)
        _add(fitted, [target], report.get("fitted"))
        for reason, number in report.get("skipped", {}).items():
            _add(skipped, [target, reason], number)
    yield from (fitted, skipped)


def _top_campaigns(snapshot: Snapshot) -> Metric:
    labels = ["target", "campaign", "stage"]
    family = GaugeMetricFamily("sirocco_campaign_pcoc", "PCOC of the largest.", labels=labels)
    for target in snapshot.atlases:
        for row in snapshot.report_of(target).get("top", []):
            for stage in _STAGES:
                _add(family, [target, row["campaign"], stage], row.get(f"pcoc_{stage}"))
    return family
