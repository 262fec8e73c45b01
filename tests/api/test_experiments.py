"""Experiments: started, changed, stopped and promoted; the labels of maps."""

import numpy as np
import pytest

from app.storage.overrides import FrozenTargets
from app.storage.versions import Versions
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import eventually

ADMIN = "/v1/admin/experiments"
AS_OF = 1_767_225_600.0
ROW = {"hour": {"log_loss": 0.4}, "window": {"log_loss": 0.5, "pcoc": 1.25, "gc_3_floor": 0.1}}
REPORT = {"targets": {"click": {"calibrator": "pooled", "overrides": {}}}}
SIR = {"target": "click", "challenger": {"method": "sir"}, "shares": {"challenger": 0.25}}


def atlas_of(factor):
    return Atlas.build({"shoes": CalibrationMap.proportional(factor)})


@pytest.fixture
def old(service):
    return service.publish({"click": atlas_of(0.5)}, REPORT)


@pytest.fixture
def new(service, old):
    return service.publish({"click": atlas_of(0.25)}, REPORT, AS_OF + 5400)


@pytest.fixture
def fitted(service, new):
    """What the refit after the start of SIR publishes."""
    post(service, **SIR, salt="a")
    running = {"click": listed(service)["click"]}
    trial = {"calibrator": "sir", "fitted_as_of": AS_OF + 7200, "fitted": 1, **ROW}
    trial["champion"] = {"hour": None, "window": {"log_loss": 0.25}}
    report = {"targets": {"click": {"calibrator": "pooled", "challenger": trial}}}
    for name in ("ready", "failed", "fitted_as_of", "shadow"):
        running["click"].pop(name)
    atlases = {"click": atlas_of(0.2), "click:challenger": atlas_of(0.125)}
    return service.publish(atlases, report | {"experiments": running}, AS_OF + 7200)


def post(service, change="", **body):
    return service.http.post(ADMIN + change, json=body)


def listed(service):
    in_force = Versions(service.store, 8).current()
    eventually(lambda: service.serving == in_force)
    return service.http.get("/v1/experiments").json()["experiments"]


def shoes(service, **label):
    answer = service.http.get("/v1/maps/click/shoes", params=label)
    found = answer.json()
    return found["calibrator"], found["values"][-1] / found["knots"][-1]


def test_a_method_is_on_trial_from_the_next_refit_on(service, new):
    answer = post(service, **SIR).json()

    (experiment,) = listed(service).values()
    about = {"challenger": {"method": "sir"}, "shares": {"challenger": 0.25}, "canary": True}
    assert about.items() <= experiment.items()
    assert (experiment["state"], experiment["reason"], experiment["watch"]) == ("running", None, {})
    assert (experiment["ready"], answer["changed"]) == (False, True)
    assert answer["experiment"].items() <= experiment.items()
    assert service.app.state.resources.refresher.current.splits == {}
    entry = service.http.get("/v1/admin/audit").json()["entries"][0]
    assert (entry["what"], entry["target"], entry["before"]) == ("start-experiment", "click", None)
    assert entry["after"] == answer["experiment"]


def test_a_change_keeps_what_the_experiment_has_gathered(service, fitted):
    first = listed(service)["click"]

    assert post(service, **SIR).json()["changed"] is False
    grown = SIR | {"shares": {"challenger": 0.5}}
    dry = post(service, **grown, dry_run=True).json()
    assert (dry["changed"], dry["version"], Versions(service.store, 8).current()) == (
        True,
        fitted,
        fitted,
    )
    answer = post(service, **grown).json()

    second = listed(service)["click"]
    assert answer["version"] > fitted
    at = second["split_at"]
    assert second == first | {"shares": {"challenger": 0.5}, "split_at": at}
    assert at > first["split_at"]
    assert second["ready"]
    split = service.app.state.resources.refresher.current.splits["click"]
    assert (split.salt, np.count_nonzero(split.arms == 1)) == ("a", 2048)
    other = SIR | {"challenger": {"method": "beta"}}
    post(service, **other)
    third = listed(service)["click"]
    assert (third["ready"], third["since"] > first["since"]) == (False, True)


def test_the_shadow_and_the_labels(service, fitted):
    found = listed(service)["click"]

    assert found["shadow"] == {
        "champion": {"hour": None, "window": {"log_loss": 0.25}},
        "challenger": ROW,
    }
    assert shoes(service) == ("pooled", pytest.approx(0.2))
    assert shoes(service, label="challenger") == ("sir", pytest.approx(0.125))
    own, on_trial = (
        service.http.get("/v1/atlas/click", params={"label": label})
        for label in ("champion", "challenger")
    )
    assert own.content == atlas_of(0.2).to_bytes()
    assert on_trial.content == atlas_of(0.125).to_bytes()
    assert own.headers["ETag"] != on_trial.headers["ETag"]
    gone = service.http.get("/v1/atlas/conversion", params={"label": "challenger"})
    assert (gone.status_code, gone.json()["detail"]) == (
        404,
        'label = "challenger": conversion has no maps on trial',
    )
    assert service.http.get("/v1/atlas/click?label=x").status_code == 422
    assert service.http.get("/v1/atlas/click:challenger").status_code == 404
    assert set(service.http.get("/v1/campaigns/shoes").json()["targets"]) == {"click", "conversion"}


def test_gauges_of_either_maps(service, fitted):
    def gauge(name, maps, **labels):
        labels |= {"target": "click", "maps": maps, "span": "window"}
        return service.metric(f"sirocco_experiment_{name}", **labels)

    assert [gauge("log_loss", maps) for maps in ("champion", "challenger")] == [0.25, 0.5]
    assert gauge("pcoc", "challenger") == 1.25
    assert gauge("gc_n_floor", "challenger", n="3") == 0.1
    assert service.metric("sirocco_experiment_ready", target="click") == 1.0
    assert not [labels for labels in service.metrics("sirocco_pcoc") if "challenger" in str(labels)]


def test_a_version_is_on_trial_at_once_and_is_promoted_frozen(service, old, new):
    post(service, target="click", challenger={"version": old})
    found = listed(service)["click"]
    assert (found["ready"], found["fitted_as_of"]) == (True, AS_OF)
    service.store.delete(f"sirocco:{{maps}}:version:{old}")
    changed = {"target": "click", "challenger": {"version": old}, "shares": {"raw": 0.5}}
    assert post(service, **changed).json()["changed"]
    present = Versions(service.store, 8).load(Versions(service.store, 8).current())
    trial = present.report["targets"]["click"]["challenger"]
    assert trial["first_hour"] == AS_OF // 3600 + 2

    answer = post(service, "/promote", target="click").json()

    assert listed(service) == {}
    assert shoes(service) == ("pooled", pytest.approx(0.5))
    assert set(FrozenTargets(service.store).read()) == {"click"}
    report = Versions(service.store, 8).load(answer["version"]).report
    assert not report.keys() & {"experiments", "methods"}
    assert "challenger" not in report["targets"]["click"]


def test_a_frozen_campaign_keeps_its_map_in_the_arm_of_a_version_too(service, old, new):
    """As in the arm of a method, and where it is switched off while the experiment runs."""
    body = {"target": "click", "campaigns": ["shoes"]}
    service.http.post("/v1/admin/freeze", json=body)

    post(service, target="click", challenger={"version": old}, shares={"challenger": 0.5})

    listed(service)
    assert shoes(service, label="challenger")[1] == 0.25


def test_what_was_promoted_after_a_rollback_is_gone_back_from(service, old, new):
    """The maps that were promoted are not those that were chosen by the rollback."""
    go_back = lambda to: service.http.post("/v1/admin/rollback", json={"version": to}).json()  # noqa: E731
    assert go_back(old)["changed"] is True
    before = Versions(service.store, 8).current()
    post(service, target="click", challenger={"version": new})
    assert post(service, "/promote", target="click").json()["changed"] is True

    answer = go_back("last-good")

    eventually(lambda: service.serving == answer["version"])
    assert (answer["changed"], answer["rolled_back_to"] >= before) == (True, True)
    assert shoes(service)[1] == 0.5


def test_a_holdout_has_no_challenger_to_promote(service, old, new):
    post(service, target="click", shares={"raw": 0.5})

    answer = post(service, "/promote", target="click")

    assert (answer.status_code, answer.json()["detail"]) == (
        409, "target = click: its experiment has no challenger"
    )  # fmt: skip


def test_a_promoted_method_is_that_of_the_target_until_a_rollback(service, fitted, new):
    dry = post(service, "/promote", target="click", dry_run=True).json()
    assert (dry["changed"], dry["experiment"], dry["version"]) == (True, None, fitted)
    answer = post(service, "/promote", target="click").json()

    again = post(service, "/promote", target="click").json()
    assert again == answer | {"changed": False}
    assert listed(service) == {}
    assert shoes(service) == ("sir", pytest.approx(0.125))
    versions = Versions(service.store, 8)
    promoted = versions.load(answer["version"])
    assert (promoted.report["methods"], set(promoted.atlases)) == ({"click": "sir"}, {"click"})
    assert promoted.report["targets"]["click"]["fitted_as_of"] == AS_OF + 7200
    assert FrozenTargets(service.store).read() == {}
    service.http.post("/v1/admin/rollback", json={"version": new})
    assert "methods" not in versions.load(versions.current()).report


def test_a_stop_and_a_rollback_end_an_experiment(service, fitted):
    versions = Versions(service.store, 8)
    ends = [("/stop", {"target": "click"}), ("/../rollback", {"version": fitted, "freeze": False})]
    for path, body in ends:
        post(service, **SIR)
        assert versions.load(versions.current()).report["experiments"].keys() == {"click"}
        assert post(service, path, **body).json()["changed"]
        found = versions.load(versions.current())
        assert "experiments" not in found.report
        assert set(found.atlases) == {"click"}
        assert found.report["targets"]["click"] == {"calibrator": "pooled"}
    assert post(service, "/stop", target="click").json()["changed"] is False


@pytest.fixture(scope="module")
def kept(lasting):
    """A version in force that no request may change."""
    return lasting.publish({"click": atlas_of(0.5)}, REPORT)


@pytest.mark.parametrize(
    ("changed", "field", "status"),
    [
        ({"target": "view"}, None, 404),
        ({"target": "conversion"}, "target", 422),
        ({"challenger": {}}, "challenger", 422),
        ({"challenger": {"method": "sir", "version": "none"}}, "challenger", 422),
        ({"challenger": {"method": "splines"}}, "challenger.method", 422),
        ({"challenger": {"version": "none"}}, "challenger.version", 422),
        ({"challenger": {"version": "000099-ab"}}, None, 404),
        ({"shares": {"challenger": 0.6, "raw": 0.5}}, "shares", 422),
        ({"shares": {"raw": 1.5}}, "shares.raw", 422),
        ({"shares": {"challenger": 0.0001}}, "shares.challenger", 422),
        ({"shares": {"champion": 0.5}}, "shares", 422),
        ({"salt": ""}, "salt", 422),
    ],
)
def test_what_cannot_be_is_refused(lasting, kept, changed, field, status):
    answer = post(lasting, **SIR | changed)

    assert (answer.status_code, answer.json().get("field")) == (status, field)
    assert Versions(lasting.store, 8).current() == kept


def test_maps_that_are_not_there_are_not_promoted(service, new):
    post(service, **SIR)

    answer = post(service, "/promote", target="click")

    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:sirocco:problem:challenger-not-ready"


def test_a_holdout_needs_no_challenger(service, new):
    """A share of the units gets raw scores at once; whose arms change when shares do is told."""
    refused = post(service, target="click", shares={"challenger": 0.1, "raw": 0.5})
    first = post(service, target="click", shares={"raw": 1.0}, salt="a").json()["experiment"]
    found = listed(service)["click"]
    question = {"target": "click", "campaign": "shoes", "scores": [0.5], "unit": "ann"}
    answer = service.http.post("/v1/calibrate", json=question).json()
    again = post(service, target="click", shares={"raw": 0.5}, salt="a").json()["experiment"]

    assert refused.json()["detail"].startswith("challenger = {}: must have method or version")
    assert (found["challenger"], found["ready"]) == ({}, True)
    assert (answer["probabilities"], answer["arms"]) == ([0.5], ["raw"])
    assert first["since"] == first["split_at"] == again["since"] < again["split_at"]
    assert post(service, "/promote", target="click").status_code == 409
