"""Gauges read at scrape time: what the refit of the version in force reported, and what the worker
said last (its heartbeat).

Of every target how well the maps do, what made them and what the guard held back; of delayed
targets also what labels come from, how the post-click models do and what waits in Redis.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.api.metrics.counters import Samples, counter, gauge, single
from app.api.snapshot import Refresher, Snapshot
from app.settings import SECONDS_PER_DAY
from app.storage.experiments import Experiment, experiments_of
from calibrators.arms import CHALLENGER, CHAMPION
from calibrators.canary import BOUND, REASONS
from calibrators.evidence import DIRECTIONS

Report = Mapping[str, Any]
Reports = Mapping[str, Report]
"""By target."""

_STAGES: Final = ("raw", "calibrated")
_MONEY: Final = {
    "cost": "What the events of the newest closed hour cost, by the amounts that were sent.",
    "value": "What they were worth.",
    "rpm": "Cost of a thousand of its impressions.",
    "roi": "Its value over its cost.",
    "ropr": "Its sum of bid x outcome over its sum of bid x calibrated probability.",
    "copc_value": "Its value over what its calibrated probabilities predict of it.",
}
# Of delayed targets also the clicks whose outcomes have just become final.
_SPANS: Final = ("hour", "window", "matured")
_GC_ORDERS: Final = (3, 4, 5)
_ORDERS: Final = {
    "cal": ("Cal-N of all.", (3, 5)),
    "gc": ("Cal-N by campaign, averaged.", _GC_ORDERS),
}
_ON_TRIAL: Final = {
    "log_loss": "Log loss of maps on trial and of those that serve.",
    "pcoc": "Their PCOC.",
}
_OF_PRODUCTS: Final = {
    "pcoc": "Predicted over true outcomes of a product of targets.",
    "pcoc_floor": "By how much PCOC would be off if the probabilities were the truth.",
}
_DECISIONS: Final = ("passed", "kept", "parent", "bounded")
_FROZEN: Final = {
    "maps_frozen": ("frozen", "1 if an operator has frozen the maps: refits do not replace them."),
    "campaigns_frozen": ("frozen_campaigns", "Campaigns whose maps an operator has frozen."),
}
_METHOD: Final = {
    "refit_frozen": ("frozen", "1 if the last refit froze levels: positives have collapsed."),
    "campaigns_jumped": ("jumps", "Campaigns whose PCOC jumped within the history."),
}
_WORKER: Final = {
    "refits": "Refits published since the worker began.",
    "failures": "Refits that failed since the worker began; the version in force stayed.",
}
_SOURCES: Final = ("model", "delays", "none")
_MODEL_QUALITY: Final = {
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
_UNCOUNTED: Final = {
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
_DELAYED_WORKER: Final = {
    "refused_models": ("refused_models", "Post-click models that could not be loaded."),
    "worker_trainings": ("trainings", "Trainings published since the worker began."),
    "worker_training_failures": ("training_failures", "Trainings that failed; the model stayed."),
    "worker_closing_failures": ("closing_failures", "Closings that failed; clicks stayed open."),
    "worker_left_alone": ("left_alone", "Refits of delayed targets that failed; maps stayed."),
}


class ReportCollector(Collector):
    """`read_heartbeat` gives the worker's heartbeat, or None when there is none."""

    def __init__(
        self,
        refresher: Refresher,
        read_heartbeat: Callable[[], Report | None],
        delayed_targets: Sequence[str] = (),
    ) -> None:
        self._refresher = refresher
        self._read_heartbeat = read_heartbeat
        self._delayed_targets = delayed_targets
        # A worker that never came is silent since we began.
        self._last_sign = time.time()

    def collect(self) -> Iterator[Metric]:
        """All families, of one and the same snapshot."""
        snapshot, now = self._refresher.current, time.time()
        heartbeat = self._read_heartbeat()
        reports = {target: snapshot.report_of(target) for target in snapshot.atlases}
        took = snapshot.report.get("refit_seconds")
        yield single("refit_seconds", "How long its refit took.", took)
        if heartbeat is not None:
            self._last_sign = float(heartbeat["at"])
        text = "Since the worker's last sign of life, or since the start where none came."
        yield single("worker_heartbeat_age_seconds", text, max(0.0, now - self._last_sign))
        yield from _worker(heartbeat)
        text = "1 for each reason why /readyz says degraded."
        reasons = (([reason], 1.0) for reason in self._refresher.reasons)
        yield gauge("sirocco_degraded", text, ["reason"], reasons)
        yield _damaged((heartbeat or {}).get("damaged", {}))
        watch = self._refresher.watch
        age = None if watch is None else watch.unfolded.age(now)
        text = "Since the end of the oldest hour that waits to be folded."
        yield single("oldest_unfolded_hour_age_seconds", text, age)
        yield from _quality(reports)
        yield from _experiments(reports, snapshot)
        yield from _products(snapshot.report.get("products", {}))
        yield from _fits(reports)
        yield from _calibrators(reports)
        yield from _field_metrics(dict(_parts(reports, "fields")))
        yield from _guard(reports, (heartbeat or {}).get("guard", {}))
        pushes = (
            ([target], count) for target, count in (heartbeat or {}).get("pushes", {}).items()
        )
        text = "Hours from which on another model scored, found since the worker began."
        yield counter("sirocco_model_pushes", text, ["target"], pushes)
        delayed = {target: snapshot.report_of(target) for target in self._delayed_targets}
        yield from _delayed(delayed, snapshot, heartbeat, now)
        yield from _clicks(heartbeat or {})


def _single_counter(name: str, text: str, value: float | None) -> Metric:
    return counter(f"sirocco_{name}", text, [], [([], value)])


def _by_target(name: str, text: str, values: Mapping[str, float | None]) -> Metric:
    samples = (([target], value) for target, value in values.items())
    return gauge(f"sirocco_{name}", text, ["target"], samples)


def _since(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)


def _worker(heartbeat: Report | None) -> Iterator[Metric]:
    said = heartbeat or {}
    for name, text in _WORKER.items():
        value = None if heartbeat is None else said.get(name, 0)
        yield _single_counter(f"worker_{name}", text, value)
    text = "Refits that failed since the last that worked."
    yield single("worker_consecutive_failures", text, said.get("consecutive_failures"))
    held = None if heartbeat is None else bool(said.get("held"))
    yield single("refit_held", "1 while a refit waits for approval.", held)


def _damaged(counts: Report) -> Metric:
    text = "What could not be read in the store and was set aside, by kind."
    samples = (([kind], number) for kind, number in counts.items() if kind != "at")
    return counter("sirocco_damaged", text, ["kind"], samples)


def _quality(reports: Reports) -> Iterator[Metric]:
    labels = ["target", "stage", "span"]
    scored = [
        ([target, stage, span], (report.get(span) or {}).get(stage) or {})
        for target, report in reports.items()
        for span in _SPANS
        for stage in _STAGES
    ]
    pcoc = ((values, row.get("pcoc")) for values, row in scored)
    yield gauge("sirocco_pcoc", "Predicted over true outcomes.", labels, pcoc)
    for name, (text, orders) in _ORDERS.items():
        errors = _by_order(scored, f"{name}_{{}}", orders)
        yield gauge(f"sirocco_{name}_n", text, [*labels, "n"], errors)
    text, floors = "GC-N by chance alone, if the probabilities were the truth.", "gc_{}_floor"
    yield gauge("sirocco_gc_n_floor", text, [*labels, "n"], _by_order(scored, floors))
    yield from _bounds(dict(_parts(reports, "bounds")))
    money = {target: found["hour"] for target, found in _parts(reports, "money")}
    for name, text in _MONEY.items():
        values = {target: row.get(name) for target, row in money.items()}
        yield _by_target(f"hour_{name}", text, values)


def _by_order(
    scored: Sequence[tuple[list[str], Report]], name: str, orders: Sequence[int] = _GC_ORDERS
) -> Samples:
    """What rows say of each N under `name`, such as `gc_{}`, with N as the last label."""
    return (([*values, str(n)], row.get(name.format(n))) for values, row in scored for n in orders)


def _bounds(bounds: Reports) -> Iterator[Metric]:
    watched = {target: found["campaigns"] for target, found in bounds.items()}
    yield _by_target("campaigns_watched", "Campaigns whose PCOC is watched.", watched)
    bound = {target: found["bound"] for target, found in bounds.items()}
    yield _by_target("pcoc_evidence_bound", "Evidence beyond which PCOC is off.", bound)
    text = "Campaigns whose PCOC is off beyond chance, by direction."
    yield _nested("campaigns_off", text, "direction", bounds, "off")
    whole = {target: found["target"] or {} for target, found in bounds.items()}
    for name, text, label, values in (
        ("pcoc_evidence", "Evidence that the target's PCOC is off.", "direction", DIRECTIONS),
        ("pcoc_interval", "Where the target's PCOC lies.", "end", ("lower", "upper")),
    ):
        samples = (([target, one], row.get(one)) for target, row in whole.items() for one in values)
        yield gauge(f"sirocco_{name}", text, ["target", label], samples)


def _canaries(experiments: Mapping[str, Experiment]) -> Iterator[Metric]:
    watched = {target: one["watch"] for target, one in experiments.items() if one["watch"]}
    text = "Evidence against the maps on trial."
    evidence = {target: found["evidence"] for target, found in watched.items()}
    yield _by_target("canary_evidence", text, evidence)
    text = "Evidence from which on an experiment is aborted."
    yield _by_target("canary_bound", text, dict.fromkeys(watched, BOUND))
    text = "1 for the reason why an experiment was aborted, until it is stopped or started anew."
    samples = (
        ([target, reason], float(one["reason"] == reason))
        for target, one in experiments.items()
        for reason in REASONS
    )
    yield gauge("sirocco_canary_aborted", text, ["target", "reason"], samples)


def _experiments(reports: Reports, snapshot: Snapshot) -> Iterator[Metric]:
    """How maps on trial do beside those that serve, in the same hours."""
    trials = {
        target: reports[target].get(CHALLENGER, {})
        for target in experiments_of(snapshot.report)
        if target in reports
    }
    scored = [
        ([target, maps, span], row.get(span) or {})
        for target, trial in trials.items()
        for maps, row in ((CHAMPION, trial.get(CHAMPION) or {}), (CHALLENGER, trial))
        for span in ("hour", "window")
    ]
    labels = ["target", "maps", "span"]
    for name, text in _ON_TRIAL.items():
        samples = ((values, row.get(name)) for values, row in scored)
        yield gauge(f"sirocco_experiment_{name}", text, labels, samples)
    for suffix, text in (("", "Their GC-N."), ("_floor", "Their GC-N by chance alone.")):
        errors = _by_order(scored, f"gc_{{}}{suffix}")
        yield gauge(f"sirocco_experiment_gc_n{suffix}", text, [*labels, "n"], errors)
    ready = {
        target: target in snapshot.challengers and not trials.get(target, {}).get("failed")
        for target, one in experiments_of(snapshot.report).items()
        if one.get("challenger")
    }
    yield from _canaries(experiments_of(snapshot.report))
    yield _by_target("experiment_ready", "1 if there are maps on trial, and none failed.", ready)


def _products(products: Reports) -> Iterator[Metric]:
    rows = [
        ([name, span], found.get(span) or {})
        for name, found in products.items()
        for span in ("hour", "window")
    ]
    for name, text in _OF_PRODUCTS.items():
        samples = ((labels, row.get(name)) for labels, row in rows)
        yield gauge(f"sirocco_product_{name}", text, ["product", "span"], samples)
    text = "1 where its window is off by more than chance explains and than matters."
    off = (([name], found.get("off")) for name, found in products.items())
    yield gauge("sirocco_product_off", text, ["product"], off)


def _fits(reports: Reports) -> Iterator[Metric]:
    fitted = {target: report.get("fitted") for target, report in reports.items()}
    yield _by_target("campaigns_fitted", "Campaigns with a map of their own.", fitted)
    yield _nested(
        "campaigns_skipped", "Campaigns without, by reason.", "reason", reports, "skipped"
    )
    top = (
        ([target, row["campaign"], stage], row.get(f"pcoc_{stage}"))
        for target, report in reports.items()
        for row in report.get("top", [])
        for stage in _STAGES
    )
    labels = ["target", "campaign", "stage"]
    yield gauge("sirocco_campaign_pcoc", "PCOC of the largest.", labels, top)


def _nested(name: str, text: str, label: str, reports: Reports, field: str) -> Metric:
    """A gauge by target and the keys of a field of the reports."""
    samples = (
        ([target, key], value)
        for target, report in reports.items()
        for key, value in (report.get(field) or {}).items()
    )
    return gauge(f"sirocco_{name}", text, ["target", label], samples)


def _calibrators(reports: Reports) -> Iterator[Metric]:
    made = [
        (target, report["calibrator"])
        for target, report in reports.items()
        if report.get("calibrator")
    ]
    yield gauge(
        "sirocco_calibrator_info",
        "1 for what made the target's maps.",
        ["target", "calibrator"],
        ((pair, 1) for pair in made),
    )
    text = "Campaigns with a calibrator of their own."
    yield _nested("campaigns_overridden", text, "calibrator", reports, "overridden")
    for name, (field, text) in _FROZEN.items():
        frozen = {t: float(report.get(field, 0)) for t, report in reports.items() if report}
        yield _by_target(name, text, frozen)
    for name, (field, text) in _METHOD.items():
        # Methods that fit campaign by campaign know neither.
        values = {
            target: (report.get("method") or {}).get(field) for target, report in reports.items()
        }
        yield _by_target(name, text, values)


def _guard(reports: Reports, held: Report) -> Iterator[Metric]:
    labels = ["target", "decision"]
    guarded = [
        (target, one, report) for target, report in _parts(reports, "guard") for one in _DECISIONS
    ]
    campaigns = (([target, one], report[one]) for target, one, report in guarded)
    text = "Campaigns by what became of their new maps."
    yield gauge("sirocco_guard_campaigns", text, labels, campaigns)
    targets = (([target, one], report["target"] == one) for target, one, report in guarded)
    text = "1 for what became of the target's new map."
    yield gauge("sirocco_guard_target", text, labels, targets)
    text = "Maps held back since the worker began, over all refits and targets."
    counted = (([one], held.get(one, 0)) for one in _DECISIONS[1:]) if held else ()
    yield counter("sirocco_guard_held", text, ["decision"], counted)


def _delayed(
    reports: Reports, snapshot: Snapshot, heartbeat: Report | None, now: float
) -> Iterator[Metric]:
    sources = (
        ([target, source], report.get("source", "none") == source)
        for target, report in reports.items()
        for source in _SOURCES
    )
    text = "1 for what labels come from: a model, the delays alone, or nothing yet."
    yield gauge("sirocco_label_source", text, ["target", "source"], sources)
    yield from _models(reports, now)
    for name, text in _LABELS.items():
        values = {target: labels[name] for target, labels in _parts(reports, "labels")}
        yield _by_target(f"labels_{name}", text, values)
    today = (snapshot.as_of or 0.0) // SECONDS_PER_DAY
    for name, text in _DAYS.items():
        by_day = _by_day(reports, today, name)
        labels = ["target", "days_ago"]
        yield gauge(f"sirocco_pccem_{name}_conversions", text, labels, by_day)
    yield from _orphans(reports, heartbeat)


def _models(reports: Reports, now: float) -> Iterator[Metric]:
    models = dict(_parts(reports, "model"))
    versions = (([target, model["version"]], 1) for target, model in models.items())
    text = "1 for the training in force."
    yield gauge("sirocco_pccem_model_info", text, ["target", "version"], versions)
    ages = {target: _since(model["trained_at"], now) for target, model in models.items()}
    yield _by_target("pccem_model_age_seconds", "Since its model was trained.", ages)
    refused = {target: model["training"]["refused"] is not None for target, model in models.items()}
    yield _by_target("pccem_refused", "1 if the last training brought no new model.", refused)
    for name, (field, text) in _MODEL.items():
        yield _by_target(name, text, {target: model[field] for target, model in models.items()})
    for name, text in _MODEL_QUALITY.items():
        matured = _parts(reports, "matured")
        values = {target: (found["model"] or {}).get(name) for target, found in matured}
        yield _by_target(f"pccem_{name}", text, values)


def _by_day(reports: Reports, today: float, name: str) -> Samples:
    for target, matured in _parts(reports, "matured"):
        for day in matured["days"]:
            yield [target, f"{today - day['first'] // SECONDS_PER_DAY:.0f}"], day[name]


def _orphans(reports: Reports, heartbeat: Report | None) -> Iterator[Metric]:
    # "strays" is the name that reports are stored with.
    counted = {target: model["strays"] for target, model in _parts(reports, "model")}
    for name, text in _UNCOUNTED.items():
        samples = (([target], one.get(name, 0)) for target, one in counted.items())
        yield counter(f"sirocco_{name}_conversions", text, ["target"], samples)
    behaviours = None if heartbeat is None else heartbeat.get("clicks", {}).get("orphans", 0)
    conversions = sum(one.get("orphans", 0) for one in counted.values()) if counted else None
    orphans = (["behaviour"], behaviours), (["conversion"], conversions)
    text = "Behaviours and conversions whose click never came."
    yield counter("sirocco_orphans", text, ["kind"], orphans)


def _clicks(heartbeat: Report) -> Iterator[Metric]:
    clicks = heartbeat.get("clicks", {})
    for name, text in _CLICKS_NOW.items():
        yield single(f"{name}_clicks", text, clicks.get(name))
    damaged = heartbeat.get("damaged_parts")
    yield single("damaged_parts", "Damaged parts of the click log.", damaged)
    for source, counters in ((clicks, _CLICKS_COUNTED), (heartbeat, _DELAYED_WORKER)):
        for name, (field, text) in counters.items():
            yield _single_counter(name, text, source.get(field))


def _parts(reports: Reports, name: str) -> Iterator[tuple[str, Report]]:
    """That part of every report that has it."""
    return ((target, report[name]) for target, report in reports.items() if report.get(name))


class ProgressCollector(Collector):
    """How far the worker said it was, in its last sign of life that the refresher has read."""

    def __init__(self, refresher: Refresher, targets: tuple[str, ...]) -> None:
        self._refresher = refresher
        self._targets = targets

    def collect(self) -> Iterator[Metric]:
        """Of each target that the settings name; of none while there is no worker."""
        said = self._refresher.worker.get("progress", {})
        samples = (([target], said.get(target)) for target in self._targets)
        text = "Share of the target that the refit under way has fitted; 1 while it is not fitted."
        yield gauge("sirocco_refit_progress_ratio", text, ["target"], samples)


_TOP: Final = 10
"""Values of a field with gauges of their own: those with the most evidence."""
_RCE: Final = {
    "": ("value", "By how much a field's values are off, relative to their positives (Field-RCE)."),
    "_floor": ("floor", "Field-RCE by chance alone, if the probabilities were the truth."),
}
_MCE: Final = {
    "sigmas": "The largest cumulative error of any value of a field or pair, over chance.",
    "chance": "How often, at most, chance alone makes any of them so bad.",
    "relative": "The same error over the positives of that value.",
}


def _field_metrics(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    """Of the part `fields` of each target's report; without, nothing has a sample."""
    pcoc = (
        ([target, field, row["value"]], pcoc_of(row))
        for target, found in reports.items()
        for field in found["rce"]
        for row in found["top"][field]["rows"][:_TOP]
    )
    text = "Predicted over true outcomes of the values of a field with the most evidence."
    yield gauge("sirocco_field_pcoc", text, ["target", "field", "value"], pcoc)
    for suffix, (name, text) in _RCE.items():
        errors = (
            ([target, field], row[name])
            for target, found in reports.items()
            for field, row in found["rce"].items()
        )
        yield gauge(f"sirocco_field_rce{suffix}", text, ["target", "field"], errors)
    for name, text in _MCE.items():
        worst = (([target], (found["mce"] or {}).get(name)) for target, found in reports.items())
        yield gauge(f"sirocco_mce_{name}", text, ["target"], worst)


def pcoc_of(row: Mapping[str, Any]) -> float | None:
    """Expected over true positives of a value; None without positives."""
    positives = float(row["positives"])
    return float(row["expected"]) / positives if positives > 0 else None
