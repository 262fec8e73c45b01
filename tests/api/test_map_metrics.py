"""Gauges of the version in force: what they say is what its refit reported, and nothing else."""

import time
from itertools import product
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
QUALITY = {"pcoc": [None], "cal_n": ["3", "5"], "gc_n": ["3", "4", "5"]}


@pytest.fixture
def reported(lasting, atlas):
    lasting.publish({"click": atlas}, REPORT)
    return lasting


@pytest.mark.parametrize("name", QUALITY)
def test_quality_gauges_are_those_of_the_report_and_no_others(reported, name):
    expected = {}
    for span, stage in product(("hour", "window"), ("raw", "calibrated")):
        for n in QUALITY[name]:
            labels = {"target": "click", "stage": stage, "span": span} | ({"n": n} if n else {})
            number = CLICK[span][stage][name.replace("_n", f"_{n}")]
            expected[tuple(sorted(labels.items()))] = number

    assert reported.metrics(f"sirocco_{name}") == expected


def test_fits_and_skips_equal_the_report(reported):
    assert reported.metric("sirocco_campaigns_fitted", target="click") == 7
    assert reported.metrics("sirocco_campaigns_skipped") == {
        (("reason", "few_samples"), ("target", "click")): 3,
        (("reason", "few_positives"), ("target", "click")): 2,
    }
    assert reported.metric("sirocco_refit_seconds") == 1.5


def test_the_largest_campaigns_have_gauges_of_their_own(reported):
    """Any name is escaped; an undefined value is no sample: NaN would hide, zero would lie."""
    shown = reported.metrics("sirocco_campaign_pcoc")

    names = ("campaign", "stage")
    assert {tuple(dict(labels)[name] for name in names): v for labels, v in shown.items()} == {
        ('sh"o\nes', "raw"): 0.5,
        ('sh"o\nes', "calibrated"): 1.25,
        ("hats", "raw"): 0.75,
    }


def test_undefined_and_missing_numbers_are_no_samples(lasting, atlas):
    undefined = {"hour": {"raw": dict.fromkeys(row(0.0)), "calibrated": None}, "window": None}
    lasting.publish({"click": atlas}, {"targets": {"click": undefined}})

    for name in (*QUALITY, "refit_seconds", "campaigns_fitted", "campaign_pcoc"):
        assert lasting.metrics(f"sirocco_{name}") == {}


def test_the_version_in_force_and_its_age_are_shown(lasting, atlas):
    lasting.publish({"click": Atlas.empty()})
    version = lasting.publish({"click": atlas}, published_at=time.time() - 100)

    assert lasting.metrics("sirocco_map_version_info") == {(("version", version),): 1}
    assert 100 <= lasting.metric("sirocco_map_age_seconds") < 130
    assert lasting.metric("sirocco_store_up") == 1
    assert lasting.metric("sirocco_refused_versions_total") == 0


def test_before_the_first_version_there_is_no_age(shared_service):
    assert shared_service.metrics("sirocco_map_version_info") == {(("version", "none"),): 1}
    assert shared_service.metric("sirocco_map_age_seconds") is None


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
