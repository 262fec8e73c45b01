"""Gauges read at scrape time from the version in force: what it is, and what its refit reported.

Gauges of what made the maps in force, and of what the guard held back.

Gauges of delayed targets: what labels come from, how models do, what waits in Redis.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.snapshot import Refresher, Snapshot
from app.settings import SECONDS_PER_DAY

Report = Mapping[str, Any]

_SOURCES: Final = ("model", "delays", "none")
_QUALITY: Final = {
    "auc": "AUC of a post-click model on clicks that matured after its training.",
    "log_loss": "Its log loss on them.",
    "pcoc": "Its predicted over their true conversions.",
}
_LABELS: Final = {
    "clicks": "Clicks that the last refit learnt from.",
    "seen": "Conversions of theirs that had been seen by then.",
    "expected": "Conversions that they were expected to end with.",
    "ratio": "Conversions seen over those that the model let expect by then.",
}
_MODEL: Final = {
    "delay_median_seconds": ("delay_median", "Time by which half of all conversions have come."),
    "pccem_training_seconds": ("seconds", "How long the last training took."),
}
_DAYS: Final = {
    "expected": "Conversions that labels added up to, by click day.",
    "observed": "Conversions that there were in the end, by click day.",
}
_STRAYS: Final = {
    "late": "Conversions behind their click's attribution window, which count for nothing.",
    "early": "Conversions before their click, which count for nothing.",
}
_CLICKS_NOW: Final = {
    "open": "Clicks that still gather behaviours.",
    "waiting": "Clicks that never came, so far, of behaviours that did.",
}
_CLICKS_COUNTED: Final = {
    "closed_clicks": ("closed", "Clicks moved into the click log."),
    "early_behaviours": (
        "early_behaviours",
        "Behaviours that waited for their click and turned out to be before it.",
    ),
    "late_behaviours": (
        "late_behaviours",
        "Behaviours that waited for their click and were after its post-click window.",
    ),
    "expired_clicks": ("expired", "Open clicks that no worker closed in time: they are lost."),
    "damaged_clicks": ("damaged", "Open clicks that could not be read and were set aside."),
}
_WORKER: Final = {
    "refused_models": ("refused_models", "Post-click models that could not be loaded."),
    "worker_trainings": ("trainings", "Trainings published since the worker began."),
    "worker_training_failures": ("training_failures", "Trainings that failed; the model stayed."),
    "worker_closing_failures": ("closing_failures", "Closings that failed; clicks stayed open."),
    "worker_left_alone": ("left_alone", "Refits of delayed targets that failed; maps stayed."),
}


def delayed_families(
    snapshot: Snapshot, targets: Sequence[str], heartbeat: Report | None, now: float
) -> Iterator[Metric]:
    """All families: of the version's report by delayed target, and of the worker's last sign."""
    reports = {target: snapshot.report_of(target) for target in targets}
    yield _sources(reports)
    yield from _models(reports, now)
    yield from _labels(reports)
    yield from _days(reports, snapshot.as_of or 0.0)
    yield from _strays(reports, heartbeat)
    yield from _of_worker(heartbeat or {})


def _sources(reports: Mapping[str, Report]) -> Metric:
    family = GaugeMetricFamily(
        "sirocco_label_source",
        "1 for what labels come from: a model, the delays alone, or nothing yet.",
        labels=["target", "source"],
    )
    for target, report in reports.items():
        for source in _SOURCES:
            family.add_metric([target, source], float(report.get("source", "none") == source))
    return family


def _models(reports: Mapping[str, Report], now: float) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "sirocco_pccem_model_info", "1 for the training in force.", labels=["target", "version"]
    )
    age = _by_target("pccem_model_age_seconds", "Since its model was trained.")
    refused = _by_target("pccem_refused", "1 if the last training brought no new model.")
    for target, model in _parts(reports, "model"):
        info.add_metric([target, model["version"]], 1)
        trained_at = model["trained_at"]
        _add_delayed(age, [target], None if trained_at is None else max(0.0, now - trained_at))
        refused.add_metric([target], float(model["training"]["refused"] is not None))
    yield from (info, age, refused)
    for name, (field, text) in _MODEL.items():
        family = _by_target(name, text)
        for target, model in _parts(reports, "model"):
            _add_delayed(family, [target], model[field])
        yield family
    for name, text in _QUALITY.items():
        family = _by_target(f"pccem_{name}", text)
        for target, matured in _parts(reports, "matured"):
            _add_delayed(family, [target], (matured["model"] or {}).get(name))
        yield family


def _labels(reports: Mapping[str, Report]) -> Iterator[Metric]:
    for name, text in _LABELS.items():
        family = _by_target(f"labels_{name}", text)
        for target, labels in _parts(reports, "labels"):
            _add_delayed(family, [target], labels[name])
        yield family


def _days(reports: Mapping[str, Report], as_of: float) -> Iterator[Metric]:
    for name, text in _DAYS.items():
        family = GaugeMetricFamily(
            f"sirocco_pccem_{name}_conversions", text, labels=["target", "days_ago"]
        )
        for target, matured in _parts(reports, "matured"):
            for day in matured["days"]:
                ago = as_of // SECONDS_PER_DAY - day["first"] // SECONDS_PER_DAY
                family.add_metric([target, f"{ago:.0f}"], day[name])
        yield family


def _strays(reports: Mapping[str, Report], heartbeat: Report | None) -> Iterator[Metric]:
    strays = {target: model["strays"] for target, model in _parts(reports, "model")}
    for name, text in _STRAYS.items():
        family = CounterMetricFamily(f"sirocco_{name}_conversions", text, labels=["target"])
        for target, counted in strays.items():
            family.add_metric([target], counted.get(name, 0))
        yield family
    orphans = CounterMetricFamily(
        "sirocco_orphans", "Behaviours and conversions whose click never came.", labels=["kind"]
    )
    if heartbeat is not None:
        orphans.add_metric(["behaviour"], heartbeat.get("clicks", {}).get("orphans", 0))
    if strays:
        total = sum(counted.get("orphans", 0) for counted in strays.values())
        orphans.add_metric(["conversion"], total)
    yield orphans


def _of_worker(heartbeat: Report) -> Iterator[Metric]:
    clicks = heartbeat.get("clicks", {})
    for name, text in _CLICKS_NOW.items():
        family = GaugeMetricFamily(f"sirocco_{name}_clicks", text)
        _add_delayed(family, [], clicks.get(name))
        yield family
    damaged = GaugeMetricFamily("sirocco_damaged_parts", "Damaged parts of the click log.")
    _add_delayed(damaged, [], heartbeat.get("damaged_parts"))
    yield damaged
    for source, counters in ((clicks, _CLICKS_COUNTED), (heartbeat, _WORKER)):
        for name, (field, text) in counters.items():
            counter = CounterMetricFamily(f"sirocco_{name}", text)
            _add_delayed(counter, [], source.get(field))
            yield counter


def _parts(reports: Mapping[str, Report], name: str) -> Iterator[tuple[str, Report]]:
    """That part of every report that has it."""
    return ((target, report[name]) for target, report in reports.items() if report.get(name))


def _by_target(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sirocco_{name}", text, labels=["target"])


def _add_delayed(
    family: GaugeMetricFamily | CounterMetricFamily, labels: list[str], value: float | None
) -> None:
    # An undefined value is no sample, as in `map_metrics`.
    if value is not None:
        family.add_metric(labels, float(value))


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
