"""Gauges of delayed targets: what labels come from, how models do, what waits in Redis."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.api.snapshot import Snapshot
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
        _add(age, [target], None if trained_at is None else max(0.0, now - trained_at))
        refused.add_metric([target], float(model["training"]["refused"] is not None))
    yield from (info, age, refused)
    for name, (field, text) in _MODEL.items():
        family = _by_target(name, text)
        for target, model in _parts(reports, "model"):
            _add(family, [target], model[field])
        yield family
    for name, text in _QUALITY.items():
        family = _by_target(f"pccem_{name}", text)
        for target, matured in _parts(reports, "matured"):
            _add(family, [target], (matured["model"] or {}).get(name))
        yield family


def _labels(reports: Mapping[str, Report]) -> Iterator[Metric]:
    for name, text in _LABELS.items():
        family = _by_target(f"labels_{name}", text)
        for target, labels in _parts(reports, "labels"):
            _add(family, [target], labels[name])
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
        _add(family, [], clicks.get(name))
        yield family
    damaged = GaugeMetricFamily("sirocco_damaged_parts", "Damaged parts of the click log.")
    _add(damaged, [], heartbeat.get("damaged_parts"))
    yield damaged
    for source, counters in ((clicks, _CLICKS_COUNTED), (heartbeat, _WORKER)):
        for name, (field, text) in counters.items():
            counter = CounterMetricFamily(f"sirocco_{name}", text)
            _add(counter, [], source.get(field))
            yield counter


def _parts(reports: Mapping[str, Report], name: str) -> Iterator[tuple[str, Report]]:
    """That part of every report that has it."""
    return ((target, report[name]) for target, report in reports.items() if report.get(name))


def _by_target(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sirocco_{name}", text, labels=["target"])


def _add(
    family: GaugeMetricFamily | CounterMetricFamily, labels: list[str], value: float | None
) -> None:
    # An undefined value is no sample, as in `map_metrics`.
    if value is not None:
        family.add_metric(labels, float(value))
