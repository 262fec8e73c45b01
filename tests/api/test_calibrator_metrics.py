"""Gauges of calibrators and of the guard: what the report and the worker say, and nothing else."""

import time

import pytest

from app.storage.lease import Heartbeat

GUARD = {"passed": 7, "kept": 2, "parent": 1, "bounded": 3, "target": "kept"}
CLICK = {
    "calibrator": "pooled",
    "overridden": {"sir": 2, "platt": 1},
    "guard": GUARD,
    "method": {"frozen": True, "jumps": 4, "groups": 9},
}
REPORT = {"targets": {"click": CLICK, "conversion": {"calibrator": "sir", "guard": None}}}


@pytest.fixture
def reported(service, atlas):
    service.publish({"click": atlas}, REPORT)
    return service


def test_the_calibrator_of_each_target_is_told(reported):
    assert reported.metrics("sirocco_calibrator_info") == {
        (("calibrator", "pooled"), ("target", "click")): 1,
        (("calibrator", "sir"), ("target", "conversion")): 1,
    }


def test_campaigns_with_calibrators_of_their_own_are_counted(reported):
    assert reported.metrics("sirocco_campaigns_overridden") == {
        (("calibrator", "sir"), ("target", "click")): 2,
        (("calibrator", "platt"), ("target", "click")): 1,
    }


def test_every_decision_of_the_guard_is_counted(reported):
    shown = reported.metrics("sirocco_guard_campaigns")

    names = ("passed", "kept", "parent", "bounded")
    assert shown == {(("decision", name), ("target", "click")): GUARD[name] for name in names}


def test_the_decision_on_the_targets_own_map_is_one_of_four(reported):
    shown = reported.metrics("sirocco_guard_target")

    assert len(shown) == 4
    assert {dict(labels)["decision"] for labels, value in shown.items() if value} == {"kept"}


def test_the_methods_numbers_are_told_where_it_has_them(reported):
    assert reported.metrics("sirocco_refit_frozen") == {(("target", "click"),): 1}
    assert reported.metrics("sirocco_campaigns_jumped") == {(("target", "click"),): 4}


def test_what_the_worker_held_back_is_counted(service):
    held = {"kept": 5, "parent": 0, "bounded": 2}
    Heartbeat(service.store, 60).write({"at": time.time(), "guard": held})

    assert service.metrics("sirocco_guard_held_total") == {
        (("decision", name),): number for name, number in held.items()
    }


def test_before_the_first_report_there_are_no_samples(service):
    for name in (
        "calibrator_info",
        "campaigns_overridden",
        "guard_campaigns",
        "guard_target",
        "guard_held_total",
        "refit_frozen",
        "campaigns_jumped",
    ):
        assert service.metrics(f"sirocco_{name}") == {}
