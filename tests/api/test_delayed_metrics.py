"""Gauges of delayed targets: what they say is what refit, training and worker reported."""

import time
from typing import Any

import pytest

from app.settings import Settings
from app.storage.lease import Heartbeat
from tests.api.conftest import alone
from tests.api.running_service import serving

DAY = 86_400.0
AS_OF = 20_000 * DAY
MODEL = {
    "version": "000007-abc",
    "as_of": AS_OF,
    "trained_at": 1_000.0,
    "training": {"clicks": 5000, "refused": None},
    "seconds": 12.5,
    "delay_median": 7200.0,
    "strays": {"behind": AS_OF, "conversions": 100, "orphans": 3, "early": 1, "late": 2},
    "refused": None,
}
QUALITY = {"pcoc": 1.25, "gc_3": 0.5}
CONVERSION: dict[str, Any] = {
    "source": "model",
    "fitted": 4,
    "skipped": {},
    "model": MODEL,
    "labels": {
        "clicks": 900,
        "seen": 20,
        "expected": 45.5,
        "due": 19.0,
        "ratio": 1.0625,
        "mode": "posterior",
    },
    "matured": {
        "raw": {**QUALITY, "pcoc": 5.0},
        "calibrated": QUALITY,
        "model": {"auc": 0.75, "log_loss": 0.125, "pcoc": 0.9375},
        "days": [
            {"first": AS_OF - 9 * DAY, "expected": 100.5, "observed": 99.0},
            {"first": AS_OF - 8 * DAY, "expected": 101.5, "observed": 104.0},
        ],
    },
}
REPORT = {"targets": {"conversion": CONVERSION}}
TARGET = (("target", "conversion"),)


@pytest.fixture(scope="module")
def reported(settings, atlas):
    """A service whose version has that report."""
    with alone(settings) as running:
        running.publish({"conversion": atlas}, REPORT, as_of=AS_OF)
        yield running


def test_before_the_first_version_labels_have_no_source(shared_service):
    assert shared_service.metrics("sirocco_label_source") == {
        (("source", source), *TARGET): float(source == "none")
        for source in ("model", "delays", "none")
    }


@pytest.mark.parametrize("source", ["model", "delays", "none"])
def test_the_source_of_labels_is_shown(lasting, atlas, source):
    lasting.publish({"conversion": atlas}, {"targets": {"conversion": {"source": source}}})

    shown = lasting.metrics("sirocco_label_source")

    assert [dict(labels)["source"] for labels, value in shown.items() if value] == [source]
    assert len(shown) == 3


def test_the_model_in_force_and_its_labels_are_shown(reported):
    assert reported.metrics("sirocco_pccem_model_info") == {(*TARGET, ("version", "000007-abc")): 1}
    shown = {
        "pccem_model_age_seconds": pytest.approx(time.time() - 1_000, abs=60),
        "pccem_auc": 0.75,
        "pccem_log_loss": 0.125,
        "pccem_pcoc": 0.9375,
        "pccem_refused": 0,
        "pccem_training_seconds": 12.5,
        "delay_median_seconds": 7200,
        "labels_clicks": 900,
        "labels_seen": 20,
        "labels_expected": 45.5,
        "labels_ratio": 1.0625,
    }
    assert {n: reported.metric(f"sirocco_{n}", target="conversion") for n in shown} == shown


def test_expected_and_observed_conversions_are_shown_by_click_day(reported):
    shown = [reported.metrics(f"sirocco_pccem_{n}_conversions") for n in ("expected", "observed")]

    nine, eight = (("days_ago", "9"), *TARGET), (("days_ago", "8"), *TARGET)
    assert shown == [{nine: 100.5, eight: 101.5}, {nine: 99, eight: 104}]


def test_quality_on_final_outcomes_is_a_span_of_its_own(reported):
    labels = {"target": "conversion", "span": "matured"}

    assert reported.metric("sirocco_pcoc", stage="raw", **labels) == 5
    assert reported.metric("sirocco_pcoc", stage="calibrated", **labels) == 1.25
    assert reported.metric("sirocco_gc_n", stage="calibrated", n="3", **labels) == 0.5


def test_strays_are_counted(reported):
    assert reported.metric("sirocco_late_conversions_total", target="conversion") == 2
    assert reported.metric("sirocco_early_conversions_total", target="conversion") == 1
    assert reported.metrics("sirocco_orphans_total") == {(("kind", "conversion"),): 3}


def test_delays_alone_have_no_age_and_no_quality(lasting, atlas):
    """And a refused training shows."""
    model = {
        **MODEL,
        "trained_at": None,
        "strays": {"behind": AS_OF},
        "training": {"refused": "too few conversions"},
    }
    matured = {"raw": None, "calibrated": None, "model": None, "days": []}
    target = {**CONVERSION, "source": "delays", "model": model, "matured": matured, "labels": None}
    lasting.publish({"conversion": atlas}, {"targets": {"conversion": target}})

    assert lasting.metric("sirocco_pccem_refused", target="conversion") == 1
    for name in ("pccem_model_age_seconds", "pccem_auc", "labels_clicks"):
        assert lasting.metrics(f"sirocco_{name}") == {}
    assert lasting.metric("sirocco_late_conversions_total", target="conversion") == 0


def test_what_the_worker_counts_is_shown(service):
    clicks = {
        "open": 12,
        "waiting": 3,
        "closed": 400,
        "early_behaviours": 6,
        "late_behaviours": 5,
        "expired": 11,
        "damaged": 1,
        "orphans": 6,
    }
    state = {
        "clicks": clicks,
        "damaged_parts": 2,
        "refused_models": 4,
        "trainings": 9,
        "training_failures": 8,
        "closing_failures": 7,
        "left_alone": 10,
    }
    Heartbeat(service.store, 60).write({"at": time.time(), **state})

    shown = {
        "sirocco_open_clicks": 12,
        "sirocco_waiting_clicks": 3,
        "sirocco_closed_clicks_total": 400,
        "sirocco_early_behaviours_total": 6,
        "sirocco_late_behaviours_total": 5,
        "sirocco_expired_clicks_total": 11,
        "sirocco_damaged_clicks_total": 1,
        "sirocco_damaged_parts": 2,
        "sirocco_refused_models_total": 4,
        "sirocco_worker_trainings_total": 9,
        "sirocco_worker_training_failures_total": 8,
        "sirocco_worker_closing_failures_total": 7,
        "sirocco_worker_left_alone_total": 10,
    }
    assert {name: service.metric(name) for name in shown} == shown
    assert service.metrics("sirocco_orphans_total") == {(("kind", "behaviour"),): 6}


def test_a_silent_worker_shows_nothing(shared_service):
    for name in ("open_clicks", "damaged_parts", "closed_clicks_total", "orphans_total"):
        assert shared_service.metrics(f"sirocco_{name}") == {}


def test_without_delayed_targets_there_are_no_samples(redis_url):
    with serving(Settings(port=0, delayed_targets=()), redis_url) as service:
        assert service.metrics("sirocco_label_source") == {}
