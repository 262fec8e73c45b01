"""Gauges of calibrators and of the guard: what the report and the worker say, and nothing else."""

import time

import pytest

from app.storage.lease import Heartbeat

GUARD = {"passed": 7, "kept": 2, "parent": 1, "bounded": 3, "target": "kept"}
CLICK = {
    "calibrator": "pooled",
    "overridden": {"sir": 2, "platt": 1},
    "guard": GUARD,
    "frozen": True,
    "frozen_campaigns": 2,
    "method": {"frozen": True, "jumps": 4, "groups": 9},
}
REPORT = {"targets": {"click": CLICK, "conversion": {"calibrator": "sir", "guard": None}}}


@pytest.fixture(scope="module")
def reported(lasting, atlas):
    lasting.publish({"click": atlas}, REPORT)
    return lasting


DECISIONS = ("passed", "kept", "parent", "bounded")
SHOWN = {
    "calibrator_info": {
        (("calibrator", "pooled"), ("target", "click")): 1,
        (("calibrator", "sir"), ("target", "conversion")): 1,
    },
    "campaigns_overridden": {
        (("calibrator", "sir"), ("target", "click")): 2,
        (("calibrator", "platt"), ("target", "click")): 1,
    },
    "guard_campaigns": {
        (("decision", name), ("target", "click")): GUARD[name] for name in DECISIONS
    },
    "refit_frozen": {(("target", "click"),): 1},
    "maps_frozen": {(("target", "click"),): 1, (("target", "conversion"),): 0},
    "campaigns_frozen": {(("target", "click"),): 2, (("target", "conversion"),): 0},
    "campaigns_jumped": {(("target", "click"),): 4},
}


def test_what_the_report_has_of_each_target_is_told(reported):
    assert {name: reported.metrics(f"sirocco_{name}") for name in SHOWN} == SHOWN


def test_the_decision_on_the_targets_own_map_is_one_of_four(reported):
    shown = reported.metrics("sirocco_guard_target")

    assert len(shown) == 4
    assert {dict(labels)["decision"] for labels, value in shown.items() if value} == {"kept"}


def test_what_the_worker_held_back_and_found_is_counted(lasting):
    held = {"kept": 5, "parent": 0, "bounded": 2}
    said = {"at": time.time(), "guard": held, "pushes": {"click": 2}}
    Heartbeat(lasting.store, 60).write(said)

    assert lasting.metrics("sirocco_guard_held_total") == {
        (("decision", name),): number for name, number in held.items()
    }
    assert lasting.metrics("sirocco_model_pushes_total") == {(("target", "click"),): 2}


def test_before_the_first_report_there_are_no_samples(shared_service):
    for name in (*SHOWN, "guard_target", "guard_held_total"):
        assert shared_service.metrics(f"sirocco_{name}") == {}
