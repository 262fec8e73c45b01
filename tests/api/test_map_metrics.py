"""Gauges of the version in force: what they say is what its refit reported, and nothing else."""

import time
from typing import Any

import pytest

from app.settings import Settings
from app.storage.lease import Heartbeat
from calibrators import Atlas
from tests.api.running_service import serving


def row(base: float) -> dict[str, float]:
    """A row of the report in which every number is another."""
    names = ("n", "positives", "pcoc", "log_loss", "cal_3", "cal_5", "gc_3", "gc_4", "gc_5")
    return {name: base + place / 16 for place, name in enumerate(names)}


CLICK = {
    "fitted": 7,
    "skipped": {"few_samples": 3, "few_positives": 2},
    "hour": {"raw": row(1.0), "calibrated": row(2.0)},
    "window": {"raw": row(3.0), "calibrated": row(4.0)},
    "top": [
        {"campaign": 'sh"o\nes', "pcoc_raw": 0.5, "pcoc_calibrated": 1.25},
        {"campaign": "hats", "pcoc_raw": 0.75, "pcoc_calibrated": None},
    ],
}
REPORT: dict[str, Any] = {"refit_seconds": 1.5, "targets": {"click": CLICK}}


@pytest.mark.parametrize("span", ["hour", "window"])
@pytest.mark.parametrize("stage", ["raw", "calibrated"])
def test_quality_gauges_equal_the_report(service, atlas, span, stage):
    service.publish({"click": atlas}, REPORT)
    labels = {"target": "click", "stage": stage, "span": span}
    reported = CLICK[span][stage]

    shown = {
        "pcoc": service.metric("sirocco_pcoc", **labels),
        **{f"cal_{n}": service.metric("sirocco_cal_n", n=n, **labels) for n in "35"},
        **{f"gc_{n}": service.metric("sirocco_gc_n", n=n, **labels) for n in "345"},
    }

    assert shown == {name: reported[name] for name in shown}


def test_there_are_as_many_quality_gauges_as_numbers(service, atlas):
    service.publish({"click": atlas}, REPORT)

    assert len(service.metrics("sirocco_pcoc")) == 4
    assert len(service.metrics("sirocco_cal_n")) == 8
    assert len(service.metrics("sirocco_gc_n")) == 12


def test_fits_and_skips_equal_the_report(service, atlas):
    service.publish({"click": atlas}, REPORT)

    assert service.metric("sirocco_campaigns_fitted", target="click") == 7
    assert service.metrics("sirocco_campaigns_skipped") == {
        (("reason", "few_samples"), ("target", "click")): 3,
        (("reason", "few_positives"), ("target", "click")): 2,
    }
    assert service.metric("sirocco_refit_seconds") == 1.5


def test_the_largest_campaigns_have_gauges_of_their_own(service, atlas):
    """Any name is escaped; an undefined value is no sample: NaN would hide, zero would lie."""
    service.publish({"click": atlas}, REPORT)

    shown = service.metrics("sirocco_campaign_pcoc")

    names = ("campaign", "stage")
    assert {tuple(dict(labels)[name] for name in names): v for labels, v in shown.items()} == {
        ('sh"o\nes', "raw"): 0.5,
        ('sh"o\nes', "calibrated"): 1.25,
        ("hats", "raw"): 0.75,
    }


def test_undefined_and_missing_numbers_are_no_samples(service, atlas):
    undefined = {"hour": {"raw": dict.fromkeys(row(0.0)), "calibrated": None}, "window": None}
    service.publish({"click": atlas}, {"targets": {"click": undefined}})

    for name in ("pcoc", "cal_n", "gc_n", "refit_seconds", "campaigns_fitted", "campaign_pcoc"):
        assert service.metrics(f"sirocco_{name}") == {}


def test_the_version_in_force_and_its_age_are_shown(service, atlas):
    service.publish({"click": Atlas.empty()})
    version = service.publish({"click": atlas}, published_at=time.time() - 100)

    assert service.metrics("sirocco_map_version_info") == {(("version", version),): 1}
    assert 100 <= service.metric("sirocco_map_age_seconds") < 130
    assert service.metric("sirocco_store_up") == 1
    assert service.metric("sirocco_refused_versions_total") == 0


def test_before_the_first_version_there_is_no_age(service):
    assert service.metrics("sirocco_map_version_info") == {(("version", "none"),): 1}
    assert service.metric("sirocco_map_age_seconds") is None


def test_the_workers_silence_is_shown(service):
    """From the first scrape on: an alert on it fires where no worker ever came."""
    heartbeat = Heartbeat(service.store, 60)
    assert 0 <= service.metric("sirocco_worker_heartbeat_age_seconds") < 60

    heartbeat.write({"at": time.time() - 50})
    assert 50 <= service.metric("sirocco_worker_heartbeat_age_seconds") < 80

    heartbeat.write({"at": time.time() + 50})
    assert service.metric("sirocco_worker_heartbeat_age_seconds") == 0


def test_the_workers_refits_and_failures_are_counted(service):
    Heartbeat(service.store, 60).write({"at": time.time(), "refits": 7, "failures": 2})

    assert service.metric("sirocco_worker_refits_total") == 7
    assert service.metric("sirocco_worker_failures_total") == 2


def test_a_heartbeat_that_cannot_be_read_leaves_its_age(redis_url, atlas):
    """A store that goes away between two looks costs the scrape nothing."""
    with serving(Settings(port=0, refresh_seconds=60), redis_url) as service:
        Heartbeat(service.store, 60).write({"at": time.time() - 1000})
        assert service.metric("sirocco_worker_heartbeat_age_seconds") >= 1000

        service.store.execute_command("DEL", "sirocco:{maps}:heartbeat")
        service.store.hset("sirocco:{maps}:heartbeat", "not", "text")

        assert service.metric("sirocco_worker_heartbeat_age_seconds") >= 1000
        assert service.metric("sirocco_store_up") == 1
