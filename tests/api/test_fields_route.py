"""`GET /v1/fields` and the gauges by field: effects in force, beside what the last report says."""

import math

import pytest

from calibrators import Atlas
from tests.api.conftest import alone
from tests.api.test_fields_calibrate import EFFECTS, effects

ROWS = {
    "device": [("ios", 90.0, 60.0), ("unseen", 40.0, 41.0), ("", 2.0, 0.0)],
    "device*placement": [("ios\x1ftop", 50.0, 30.0), ("tv\x1fside", 5.0, 5.0)],
}
COLUMNS = ("value", "expected", "positives")
AGREEING = {"device": {"share": 0.5}, "placement": {}}
REPORT = {
    "hours": 3,
    "rce": {"device": {"value": 0.3, "floor": 0.05}},
    "mce": {"sigmas": 6.5, "relative": 0.4, "chance": 1e-7, "segments": 5}
    | {"expected": 90.0, "positives": 60.0, "fields": {"device": "ios"}},
    "top": {
        name: {"values": len(rows), "rows": [dict(zip(COLUMNS, row, strict=True)) for row in rows]}
        for name, rows in ROWS.items()
    },
}


@pytest.fixture(scope="module")
def reported(settings):
    with alone(settings, fields=("device", "placement")) as service:
        service.publish(
            {"click": Atlas.empty().with_effects(effects())},
            {"targets": {"click": {"fields": REPORT, "method": {"fields": AGREEING}}}},
        )
        yield service


def test_the_route_joins_effects_and_report(reported):
    found = reported.http.get("/v1/fields").json()

    assert (found["fields"], list(found["targets"])) == (["device", "placement"], ["click"])
    click = found["targets"]["click"]
    assert (click["hours"], click["mce"]) == (3, REPORT["mce"])
    device, pair = click["terms"]["device"], click["terms"]["device*placement"]
    assert (device["effects"], device["seen"]) == (3, 3)
    assert (device["share"], pair["share"]) == (0.5, 1.0)
    assert (device["rce"], device["floor"], pair["rce"]) == (0.3, 0.05, None)
    ios, unseen, other = device["top"]
    assert ios["values"] == ["ios"]
    assert ios["effect"] == pytest.approx(EFFECTS["device"]["ios"])
    assert ios["upper"] - ios["lower"] == pytest.approx(2 * 1.6449 * 0.1, rel=1e-4)
    assert ios["pcoc"] == 1.5
    assert unseen["effect"] == other["effect"] == pytest.approx(EFFECTS["device"][""])
    assert other["pcoc"] is None
    of_pair, without = pair["top"]
    assert (of_pair["values"], without["values"]) == (["ios", "top"], ["tv", "side"])
    assert of_pair["effect"] == pytest.approx(0.125)
    assert without["effect"] is None
    placement = click["terms"]["placement"]
    assert (placement["effects"], placement["top"]) == (1, []), "other has none"


def test_the_gauges_are_those_of_the_report(reported):
    pcoc = {"target": "click", "field": "device"}
    assert reported.metric("sirocco_field_pcoc", value="ios", **pcoc) == 1.5
    assert math.isclose(reported.metric("sirocco_field_pcoc", value="unseen", **pcoc), 40 / 41)
    assert reported.metric("sirocco_field_rce", **pcoc) == 0.3
    assert reported.metric("sirocco_field_rce_floor", **pcoc) == 0.05
    assert reported.metric("sirocco_mce_sigmas", target="click") == 6.5
    assert reported.metric("sirocco_mce_chance", target="click") == 1e-7
    assert reported.metric("sirocco_mce_relative", target="click") == 0.4
