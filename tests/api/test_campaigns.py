"""`GET /v1/campaigns`: who has a map of one's own, page by page, and how the largest do."""

from urllib.parse import quote

import numpy as np
import pytest

from app.storage.bins import BinsStore
from calibrators import Atlas, CalibrationMap
from calibrators.evidence import PcocEvidence, bound_of
from tests.api.problems import broken_rule, problem

PATH = "/v1/campaigns"
SHOES = {
    "campaign": "shoes",
    "n": 900.0,
    "positives": 90.0,
    "pcoc_raw": 0.5,
    "pcoc_calibrated": None,
}
REPORT = {"targets": {"click": {"top": [SHOES]}}}
UNTOLD = {"calibrator": None, "overridden": None, "guard": None, "method": None, "held": {}}
TOLD = {
    "calibrator": "pooled",
    "overridden": {},
    "guard": {"passed": 1, "kept": 1, "parent": 0, "bounded": 0, "target": "passed"},
    "method": {"frozen": False, "jumps": 0},
}


def test_campaigns_with_maps_are_listed_by_name(lasting, atlas):
    version = lasting.publish({"click": atlas}, REPORT)

    assert lasting.http.get(PATH).json() == {
        "target": "click",
        "version": version,
        **UNTOLD,
        "total": 2,
        "campaigns": [
            {"campaign": "hats", "calibrator": None, "report": None},
            {"campaign": "shoes", "calibrator": None, "report": SHOES},
        ],
        "next": None,
    }


def test_a_target_without_maps_has_no_campaigns(lasting, atlas):
    version = lasting.publish({"click": atlas})

    answer = lasting.http.get(PATH, params={"target": "conversion"})

    assert answer.json() == {
        "target": "conversion",
        "version": version,
        **UNTOLD,
        "total": 0,
        "campaigns": [],
        "next": None,
    }


def test_pages_hold_every_campaign_once(lasting):
    """Any name may be one: `next` leads on through all of them."""
    names = sorted({*"abc", "a/b", "a b?&=#", "ä", "日本", "%2F", "c" * 256, '"'})
    lasting.publish({"click": Atlas.build(dict.fromkeys(names, CalibrationMap.identity()))})

    for limit in (1, 2, 7, 10, 1000):
        found, after = [], ""
        while after is not None:
            page = lasting.http.get(PATH, params={"limit": limit, "after": after}).json()
            assert page["total"] == len(names)
            assert 1 <= len(page["campaigns"]) <= limit
            found += [row["campaign"] for row in page["campaigns"]]
            after = page["next"]
        assert found == names


def test_one_campaign_tells_what_serves_it_by_target(lasting, atlas):
    version = lasting.publish({"click": atlas}, REPORT)
    same = {"calibrator": None, "frozen": False}
    identity = {"level": "identity", "knots": 2, "report": None, **same}

    shoes = lasting.http.get(f"{PATH}/shoes").json()
    unseen = lasting.http.get(f"{PATH}/un/seen").json()

    assert shoes == {
        "campaign": "shoes",
        "version": version,
        "targets": {
            "click": {"level": "campaign", "knots": 3, "report": SHOES, **same},
            "conversion": identity,
        },
    }
    assert unseen["campaign"] == "un/seen"
    assert unseen["targets"]["click"] == {"level": "target", "knots": 3, "report": None, **same}


def shown_calibrators(lasting):
    """By campaign: in the list, on the campaign's own page, and with its map."""
    listed = lasting.http.get(PATH).json()["campaigns"]
    rows = {row["campaign"]: row["calibrator"] for row in listed}
    for name, calibrator in rows.items():
        page = lasting.http.get(f"{PATH}/{name}").json()["targets"]["click"]
        shown_map = lasting.http.get(f"/v1/maps/click/{name}").json()
        assert page["calibrator"] == shown_map["calibrator"] == calibrator
    return rows


def test_what_made_the_maps_of_a_target_is_told(lasting, atlas):
    lasting.publish({"click": atlas}, {"targets": {"click": {**TOLD, "top": []}}})

    page = lasting.http.get(PATH).json()

    assert {name: page[name] for name in TOLD} == TOLD
    assert page["held"] == {}
    assert shown_calibrators(lasting) == {"hats": "pooled", "shoes": "pooled"}


def test_a_campaign_with_a_calibrator_of_its_own_says_so(lasting, atlas):
    """Also one that is not among the largest."""
    top = [{**SHOES, "calibrator": "pooled", "decision": "kept"}]
    click = {**TOLD, "overridden": {"sir": 1}, "overrides": {"hats": "sir"}, "top": top}
    lasting.publish({"click": atlas}, {"targets": {"click": click}})

    assert shown_calibrators(lasting) == {"hats": "sir", "shoes": "pooled"}
    page = lasting.http.get(f"{PATH}/shoes").json()
    assert page["targets"]["click"]["report"]["decision"] == "kept"


def test_the_targets_map_is_made_by_the_targets_calibrator(lasting, atlas):
    """Also for a campaign that has a calibrator, but no map, of its own."""
    top = [
        {**SHOES, "calibrator": "pooled", "decision": "passed"},
        {**SHOES, "campaign": "unseen", "calibrator": "sir", "decision": "parent"},
    ]
    click = {**TOLD, "overridden": {"sir": 1}, "overrides": {"unseen": "sir"}, "top": top}
    lasting.publish({"click": atlas}, {"targets": {"click": click}})

    served = lasting.http.get(f"{PATH}/unseen").json()["targets"]

    assert lasting.http.get(PATH).json()["held"] == {"unseen": "parent"}
    assert (served["click"]["level"], served["click"]["calibrator"]) == ("target", "pooled")
    assert (served["conversion"]["level"], served["conversion"]["calibrator"]) == ("identity", None)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("limit", "0", "must be greater than or equal to 1"),
        ("limit", "1001", "must be less than or equal to 1000"),
        ("limit", "-1", "must be greater than or equal to 1"),
        ("limit", "x", "must be a valid integer"),
        ("limit", "1.5", "must be a valid integer"),
        ("limit", "x" * 10_000, "must be a valid integer"),
        ("sort", "size", "must be 'name' or 'evidence'"),
        ("search", "x" * 257, "must have at most 256 characters"),
    ],
)
def test_a_parameter_is_refused_in_the_words_of_its_rule(refusing, name, value, rule):
    """Also the bounds of the limit, 1 to 1000."""
    answer = refusing.http.get(PATH, params={name: value})

    broken_rule(answer, name, rule, f'"{value}"' if len(value) < 60 else f'"{value[:60]}...')


@pytest.mark.parametrize("target", ["view", "x" * 10_000])
def test_an_unknown_target_is_not_found(refusing, target):
    content = problem(refusing.http.get(PATH, params={"target": target}), 404, "not-found")

    assert content["detail"].startswith(f'target = "{target[:60]}')
    assert content["detail"].endswith("unknown target; known are click, conversion")


@pytest.mark.parametrize(("campaign", "shown"), [("", '""'), ("x" * 10_000, f'"{"x" * 60}...')])
@pytest.mark.parametrize("path", [PATH, "/v1/maps/click"])
def test_a_campaign_in_a_path_has_1_to_256_bytes(refusing, path, campaign, shown):
    answer = refusing.http.get(f"{path}/{campaign}")

    broken_rule(answer, "campaign", "must have 1 to 256 bytes of UTF-8", shown)


@pytest.mark.parametrize("campaign", ["hats\n", "ha\nts", "\n"])
def test_a_campaign_in_a_path_may_have_line_ends(lasting, campaign):
    lasting.publish({"click": Atlas.build({campaign: CalibrationMap.proportional(0.5)})})
    override = f"/v1/admin/overrides/click/{quote(campaign)}"

    shown = lasting.http.get(f"/v1/maps/click/{quote(campaign)}").json()
    served = lasting.http.get(f"{PATH}/{quote(campaign)}").json()
    lasting.http.put(override, json={"calibrator": "sir"})
    stored = lasting.http.get("/v1/admin/overrides").json()["overrides"]
    lasting.http.delete(override)

    assert (shown["campaign"], shown["level"]) == (campaign, "campaign")
    assert (served["campaign"], served["targets"]["click"]["level"]) == (campaign, "campaign")
    assert stored == [{"campaign": campaign, "calibrator": "sir"}]
    assert lasting.http.get("/v1/admin/overrides").json()["overrides"] == []


@pytest.fixture
def watched(lasting):
    """PcocEvidence of six hours: 'd' is predicted twice as much as there is, 'e' too little."""
    names = ("a", "b", "d", "e")
    predicted, positives = np.full(4, 100.0), np.array([100.0, 104.0, 50.0, 180.0])
    found = PcocEvidence.empty(500)
    for hour in range(500, 506):
        found = found.after(hour, names, predicted, positives)
    BinsStore(lasting.store, 3600).evidence.write("click", 4, found)
    return found


def test_campaigns_are_listed_by_evidence_page_by_page(lasting, atlas, watched):
    lasting.publish({"click": atlas}, REPORT)
    found, after = [], ""

    while after is not None:
        wanted = {"sort": "evidence", "limit": 3, "after": after}
        page = lasting.http.get(PATH, params=wanted).json()
        assert (page["total"], page["bound"]) == (4, bound_of(4))
        found += page["campaigns"]
        after = page["next"]

    assert {row["campaign"] for row in found[:2]} == {"d", "e"}
    assert [row["pcoc"]["off"] for row in found] == [True, True, False, False]
    evidence = [row["pcoc"]["evidence"] for row in found]
    assert evidence == sorted(watched.directions.max(axis=0).tolist(), reverse=True)
    off = {row["campaign"]: row["pcoc"] for row in found}["d"]
    assert off["direction"] == "over"
    assert off["lower"] < off["value"] < off["upper"]
    assert off["value"] == pytest.approx(2.0)


@pytest.mark.parametrize("after", ["shoes", "-1", "1.5", "9" * 30])
def test_a_page_by_evidence_begins_where_one_ended(lasting, after):
    answer = lasting.http.get(PATH, params={"sort": "evidence", "after": after})

    assert answer.status_code == 422
    assert "after = " in answer.json()["detail"]
