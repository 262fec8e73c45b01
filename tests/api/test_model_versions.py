"""Versions of a model over HTTP: events say which made a score, and each is served by its maps."""

import numpy as np
import pytest

from app.api.contract import Calibration
from app.storage.overrides import FrozenTargets, Overrides
from calibrators.bins.model_versions import named
from tests.api.conftest import alone
from tests.api.events import HOUR_SECONDS, outcome
from tests.api.running_service import eventually
from tests.columns.bodies import read_answer, scores_body

FIRST = 470_000 * HOUR_SECONDS
PATH = "/v1/calibrate"
CAMPAIGNS = ["c0", "c1", "c2"]
SCORES_TOTAL = "sirocco_scores_total"


@pytest.fixture(scope="module")
def versions(settings):
    """A service that was sent two hours of outcomes; v2 says half of what the model before said."""
    with alone(settings, clock="event", calibrator="pooled", top_campaigns=5) as service:
        rng = np.random.default_rng(5)
        for hour in range(2):
            truth = rng.beta(2, 20, 3000)
            events = [
                outcome(
                    FIRST + hour * HOUR_SECONDS,
                    CAMPAIGNS[number % 3],
                    score if number % 2 else score / 2,
                    outcome=float(rng.random() < score),
                )
                | ({} if number % 2 else {"model_version": "v2"})
                for number, score in enumerate(truth.tolist())
            ]
            assert service.http.post("/v1/events", json=events).json()["accepted"] == 3000
            report = _refit(service, hour + 1)
        yield service, report


def _refit(service, hours, **changes):
    return service.refit(
        FIRST + hours * HOUR_SECONDS,
        settings=service.settings.model_copy(update=changes),
        overrides=Overrides(service.store),
        frozen=FrozenTargets(service.store),
    )


def _asked(service, path=PATH, **body):
    answer = service.http.post(path, json={"target": "click", **body})
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() <= {*Calibration.__struct_fields__}, "the OpenAPI document has it"
    return answer.json()


def test_the_same_impression_gets_the_same_probability_of_either_version(versions):
    service, _ = versions
    before = _asked(service, campaign="c1", scores=[0.08, 0.2])["probabilities"]
    after = _asked(service, campaign="c1", scores=[0.04, 0.1], model_version="v2")["probabilities"]
    blind = _asked(service, campaign="c1", scores=[0.04, 0.1])["probabilities"]
    assert after == pytest.approx(before, rel=0.2)
    assert max(blind) < 0.7 * max(after)


@pytest.mark.parametrize("count", [2, 100])
def test_every_form_of_a_request_is_answered_by_the_versions_maps(versions, count):
    service, _ = versions
    names, scores = (["c1", "new"] * count)[:count], [0.05] * count
    rows = [
        {"target": "click", "campaign": name, "score": 0.05, "model_version": "v2"}
        for name in names
    ]
    wanted = _asked(service, campaigns=names, scores=scores, model_version="v2")["probabilities"]
    answer = service.http.post(PATH, json={"rows": rows}).json()
    assert answer["probabilities"] == wanted
    body = scores_body(scores, campaigns=[named(name, "v2") for name in names])
    headers = {"Content-Type": "application/vnd.sirocco.columns"}
    packed = service.http.post(PATH, content=body, headers=headers)
    assert read_answer(packed.content)[0] == wanted
    atlas = service.app.state.resources.refresher.current.atlases["click"]
    assert wanted == atlas([named(name, "v2") for name in names], scores).tolist()


def test_an_explanation_says_whose_maps_answered(versions):
    service, _ = versions
    path = f"{PATH}?explain=true"
    body = {"campaigns": ["c1", "new"], "scores": [0.1, 0.1]}
    known = _asked(service, path, **body, model_version="v2")
    unknown = _asked(service, path, **body, model_version="v9")
    without = _asked(service, path, **body)
    assert known["model_versions"] == ["v2", "v2"]
    assert unknown["model_versions"] == [None, None]
    assert "model_versions" not in without
    assert known["levels"] == unknown["levels"] == ["campaign", "target"]
    assert unknown["probabilities"] == without["probabilities"]


@pytest.mark.parametrize("count", [3, 99])
def test_scores_are_counted_by_the_levels_that_an_explanation_says(versions, count):
    service, _ = versions
    body = {"campaigns": ["c1", "new", "newer"] * (count // 3), "scores": [0.1] * count}

    def counted():
        names = ("campaign", "target")
        found = [service.metric(SCORES_TOTAL, target="click", level=name) for name in names]
        return np.array([one or 0.0 for one in found])

    before = counted()
    levels = _asked(service, f"{PATH}?explain=true", **body, model_version="v2")["levels"]

    expected = [levels.count("campaign"), levels.count("target")]
    assert (counted() - before).tolist() == expected == [count / 3, 2 * count / 3]


def test_reports_and_lists_know_campaigns_and_no_names_by_version(versions):
    service, report = versions
    click = report["targets"]["click"]
    assert sorted(row["campaign"] for row in click["top"]) == CAMPAIGNS
    assert sum(row["n"] for row in click["top"]) == 6000.0
    assert click["method"]["model_versions"] == {"v2": 3000.0}
    # Of the second hour, by maps of the first.
    assert click["hour"]["calibrated"]["pcoc"] == pytest.approx(1.0, abs=0.2)
    listed = service.http.get("/v1/campaigns").json()["campaigns"]
    assert [row["campaign"] for row in listed] == CAMPAIGNS


@pytest.mark.parametrize("version", ["", "a\nb", "x" * 65])
def test_a_version_that_cannot_be_is_refused_by_field_value_and_rule(versions, version):
    service, _ = versions
    rule = "must have 1 to 64 bytes of UTF-8, all printable"
    body = {"target": "click", "campaign": "c1", "scores": [0.1], "model_version": version}
    answer = service.http.post(PATH, json=body).json()
    assert (answer["field"], answer["rule"]) == ("model_version", rule)
    assert answer["detail"].startswith("model_version = ")
    events = [{**outcome(FIRST, "c1", 0.1), "model_version": version}]
    assert rule in service.http.post("/v1/events", json=events).text


def test_reliability_is_that_of_all_versions_before_and_after(versions):
    service, _ = versions
    found = service.http.get("/v1/reliability/click/c1").json()
    raw, calibrated = (sum(one["n"] for one in found[which]) for which in ("raw", "calibrated"))
    assert raw == calibrated == 2000.0


def test_what_holds_for_a_campaign_holds_for_all_versions(versions):
    """A switch that leaves a version of the model on is none; so with a calibrator of its own."""
    service, _ = versions
    raw = {"campaigns": ["c1", "c2", "c0"], "scores": [0.05, 0.06, 0.07]}

    def served():
        every = ({}, {"model_version": "v2"}, {"model_version": "v9"})
        return [_asked(service, **raw, **one)["probabilities"] for one in every]

    off = {"version": "identity", "target": "click", "campaigns": ["c1"]}
    answer = service.http.post("/v1/admin/rollback", json=off)
    assert answer.status_code == 200, answer.text
    eventually(lambda: service.serving == answer.json()["version"])
    assert [c1 for c1, _, _ in served()] == [0.05] * 3

    Overrides(service.store).put("click", "c2", "identity")
    # Whether raw scores are good enough for a version is the guard's to say.
    _refit(service, 2, guard=False)
    found = served()
    assert [(c1, c2) for c1, c2, _ in found] == [(0.05, 0.06)] * 3
    assert 0.07 not in [c0 for _, _, c0 in found]
