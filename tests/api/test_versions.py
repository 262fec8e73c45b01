"""The way back to older maps, what moved between versions, and maps that no refit replaces."""

import time

import pytest
from sirocco_client import EdgeCalibrator

from app.storage.errors import TooManyFrozen, VersionChanged
from app.storage.lease import Lease
from app.storage.overrides import FrozenTargets
from app.storage.versions import Versions
from calibrators import Atlas, CalibrationMap
from calibrators.bins.model_versions import named
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import FieldGroups, GroupMaps
from tests.api.running_service import eventually

ADMIN = "/v1/admin"


def atlas_of(**factors):
    maps = {name: CalibrationMap.proportional(factor) for name, factor in factors.items()}
    return Atlas.build(maps, CalibrationMap.proportional(0.9))


@pytest.fixture
def old(service):
    return service.publish(
        {"click": atlas_of(hats=0.5, shoes=0.5), "conversion": atlas_of()}, REPORT
    )


@pytest.fixture
def new(service, old):
    return service.publish({"click": atlas_of(hats=0.5, shoes=0.25), "conversion": atlas_of(a=0.1)})


REPORT = {"targets": {"click": {"calibrator": "pooled"}}}


def calibrated(service, campaign, target="click"):
    body = {"target": target, "campaign": campaign, "scores": [0.4]}
    return service.http.post("/v1/calibrate", json=body).json()["probabilities"][0]


def post(service, change, **body):
    return service.http.post(f"{ADMIN}/{change}", json=body)


def test_the_maps_of_an_older_version_serve_again(service, old, new):
    assert calibrated(service, "shoes") == 0.1

    answer = post(service, "rollback", version=old).json()

    eventually(lambda: service.serving == answer["version"])
    assert calibrated(service, "shoes") == 0.2
    assert answer["version"] > new
    assert answer | {"version": None} == {
        "rolled_back_to": old,
        "targets": ["click", "conversion"],
        "campaigns": None,
        "frozen": True,
        "all_frozen": ["click", "conversion"],
        "without_map": [],
        "dry_run": False,
        "changed": True,
        "version": None,
    }
    listed = service.http.get(f"{ADMIN}/versions").json()
    assert listed["rolled_back"] == {"to": old, "targets": ["click", "conversion"]}
    assert (listed["calibrators"]["click"], set(listed["frozen"])) == (
        "pooled",
        {"click", "conversion"},
    )
    entry = service.http.get(f"{ADMIN}/audit").json()["entries"][0]
    assert (entry["what"], entry["before"]["version"], entry["after"]["version"]) == (
        "rollback",
        new,
        old,
    )


def test_of_one_target_alone(service, old, new):
    post(service, "rollback", version=old, target="conversion", freeze=False)

    eventually(lambda: calibrated(service, "a", "conversion") == 0.4 * 0.9)
    assert calibrated(service, "shoes") == 0.1
    assert FrozenTargets(service.store).read() == {}


def test_once_more_changes_nothing(service, old, new):
    first = post(service, "rollback", version=old).json()
    again = post(service, "rollback", version=old).json()

    assert again == first | {"changed": False}
    assert Versions(service.store, 8).current() == first["version"]


def test_a_dry_run_tells_and_changes_nothing(service, old, new):
    answer = post(service, "rollback", version=old, dry_run=True).json()

    assert (answer["changed"], answer["version"]) == (True, new)
    assert Versions(service.store, 8).current() == new
    assert FrozenTargets(service.store).read() == {}
    assert service.http.get(f"{ADMIN}/audit").json()["entries"] == []


def test_none_is_the_way_to_raw_scores(service, new):
    answer = post(service, "rollback", version="none", target="click").json()

    eventually(lambda: service.serving == answer["version"])
    assert calibrated(service, "shoes") == 0.4
    assert calibrated(service, "a", "conversion") == pytest.approx(0.04)


def test_what_cannot_be_is_refused_and_changes_nothing(service, new):
    refused = [
        post(service, "rollback", version="000099-ab"),
        post(service, "rollback", version=new, target="view"),
        post(service, "rollback"),
        post(service, "freeze", dry_run=1),
        post(service, "freeze", campaigns=["shoes"]),
        post(service, "rollback", version="identity", target="click", campaigns=[]),
    ]
    assert [answer.status_code for answer in refused] == [404, 404, 422, 422, 422, 422]
    fields = [None, None, "version", "dry_run", "campaigns", "campaigns"]
    assert [answer.json().get("field") for answer in refused] == fields
    service.store.hset(f"sirocco:{{maps}}:version:{new}", "click:0", b"junk")
    damaged = post(service, "rollback", version=new)
    assert damaged.status_code == 409
    assert damaged.json()["type"] == "urn:sirocco:problem:damaged-version"
    assert FrozenTargets(service.store).read() == {}


def test_campaigns_get_what_served_them_and_the_others_stay(service, old, new):
    """One that had no map of its own then gets the target's of then."""
    body = {"version": old, "target": "conversion", "campaigns": ["a"]}
    preview = post(service, "rollback", **body, dry_run=True).json()
    first, again = (post(service, "rollback", **body).json() for _ in range(2))

    eventually(lambda: calibrated(service, "a", "conversion") == 0.4 * 0.9)
    assert (preview["changed"], first["campaigns"], again) == (
        True,
        ["a"],
        first | {"changed": False},
    )
    assert calibrated(service, "shoes") == 0.1
    assert list(FrozenTargets(service.store).read()) == ["conversion:a"]
    served = service.http.get("/v1/campaigns/a").json()["targets"]
    assert (served["conversion"]["frozen"], served["click"]["frozen"]) == (True, False)
    about = service.http.get(f"{ADMIN}/versions").json()["rolled_back"]
    assert about == {"to": old, "targets": ["conversion"], "campaigns": ["a"]}
    post(service, "unfreeze", target="conversion", campaigns=["a"])
    assert FrozenTargets(service.store).read() == {}


def test_where_a_field_says_the_group_it_serves_again_who_had_no_map(service):
    """Not the target's: no version tells whose campaign it is."""
    group = MapColumns.of_maps([CalibrationMap.proportional(0.5)])
    groups = GroupMaps(FieldGroups("advertiser"), ("acme",), group)
    bare, mapped = ({}, {"shoes": CalibrationMap.proportional(0.25)})
    old, _ = (service.publish({"click": Atlas.build(m, None, groups)}) for m in (bare, mapped))

    answer = post(service, "rollback", version=old, target="click", campaigns=["shoes"]).json()

    found = Versions(service.store, 8).load(answer["version"]).atlases["click"]
    assert Atlas.from_bytes(found).campaigns == ()


def test_identity_gives_the_score_bit_for_bit_everywhere_within_5_seconds(service, new):
    scores = [0.0, 5e-324, 0.1, 1 / 3, 0.7, 0.9999999999999999, 1.0] * 9
    shoes = {"target": "click", "campaigns": ["shoes"]}

    def is_prompt() -> bool:
        """Unless the machine takes its time."""
        post(service, "rollback", version=new, **shoes)
        eventually(lambda: calibrated(service, "shoes") == 0.1)
        began = time.monotonic()
        post(service, "rollback", version="identity", **shoes)
        eventually(lambda: calibrated(service, "shoes") == 0.4)
        with EdgeCalibrator(service.url, "click", refresh_seconds=1.0) as edge:
            assert edge.wait(60)
            found = [edge.at("shoes", score) for score in scores]
            assert (found, edge("shoes", scores).tolist()) == (scores, scores)
        return time.monotonic() - began < 5

    eventually(is_prompt)
    body = {"target": "click", "campaign": "shoes", "scores": scores}
    answer = service.http.post("/v1/calibrate", json=body).json()["probabilities"]
    assert (answer, calibrated(service, "hats")) == (scores, 0.2)


def test_last_good_goes_back_once_and_never_to_what_was_left(service, old, new):
    shoes = {"target": "click", "campaigns": ["shoes"]}

    def last_good(**chosen):
        return post(service, "rollback", version="last-good", **chosen).json()

    first, again = last_good(**shoes), last_good(**shoes)
    assert (first["rolled_back_to"], again["changed"]) == (old, False)
    assert last_good(target="click", campaigns=["hats"])["type"].endswith(":no-last-good")
    killed = post(service, "rollback", version="identity", **shoes).json()
    assert (killed["changed"], last_good(**shoes)["rolled_back_to"]) == (True, first["version"])
    # A rollback of one campaign is no way of the whole target: it is what was left before it.
    assert last_good(target="click")["rolled_back_to"] == old


def test_frozen_campaigns_are_bounded_and_a_refit_that_began_before_is_refused(service, new):
    frozen = FrozenTargets(service.store)
    _, freezes = frozen.counted()
    lease = Lease(service.store, "worker", "test", 60)
    assert lease.acquire()

    assert post(service, "freeze", target="click", campaigns=["a", "b:c"]).status_code == 200

    with pytest.raises(VersionChanged):
        Versions(service.store, 8).publish(lease.token, 1.0, 2.0, {}, {}, freezes=freezes)
    _, freezes = frozen.counted()
    assert Versions(service.store, 8).publish(lease.token, 1.0, 2.0, {}, {}, freezes=freezes)
    frozen.freeze(["conversion", "click:a"], 3.0, most=2)
    with pytest.raises(TooManyFrozen):
        frozen.freeze(["conversion:a"], 3.0, most=2)
    assert list(frozen.read()) == ["click:a", "click:b:c", "conversion"]


def test_before_the_first_version_there_is_no_way_back(service):
    answer = post(service, "rollback", version="none")

    assert (answer.status_code, answer.json()["type"]) == (409, "urn:sirocco:problem:no-version")


def test_frozen_maps_are_not_replaced_by_a_refit_that_began_before(service, new):
    lease = Lease(service.store, "worker", "test", 60)
    assert lease.acquire()
    versions = Versions(service.store, 8)
    packed = {"click": atlas_of().to_bytes()}

    assert post(service, "freeze", target="click").json()["frozen"] == ["click"]

    with pytest.raises(VersionChanged):
        versions.publish(lease.token, 1.0, 2.0, packed, {})
    assert versions.publish(lease.token, 1.0, 2.0, packed, {}, replaced=["conversion"])
    with pytest.raises(VersionChanged):
        versions.publish(lease.token, 1.0, 2.0, packed, {}, replaced=[], expected=new)
    assert post(service, "unfreeze").json() == {
        "changed": ["click"],
        "frozen": [],
        "without_map": [],
        "dry_run": False,
    }
    assert versions.publish(lease.token, 1.0, 2.0, packed, {})


@pytest.mark.parametrize("change", ["freeze", "unfreeze", "rollback"])
def test_campaigns_that_are_new_or_mistyped_are_named_in_the_answer(service, change):
    atlas = atlas_of(**{"b": 0.5, "by\x1fx": 0.5, named("hats", "v2"): 0.5, "z": 0.5})
    version = service.publish({"click": atlas})
    asked = {"version": version} if change == "rollback" else {}
    campaigns = ["b", "by", "hat", "hats", "z", "zz"]

    for target, without in (("click", ["by", "hat", "zz"]), ("conversion", campaigns)):
        answer = post(service, change, **asked, target=target, campaigns=campaigns).json()
        assert answer["without_map"] == without


def test_a_freeze_is_idempotent_and_has_a_dry_run(service):
    assert post(service, "freeze", dry_run=True).json()["frozen"] == ["click", "conversion"]
    assert FrozenTargets(service.store).read() == {}
    post(service, "freeze", target="click")
    since = FrozenTargets(service.store).read()

    assert post(service, "freeze", target="click").json()["changed"] == []
    assert FrozenTargets(service.store).read() == since


def test_the_audit_log_tells_what_was_frozen_before_and_after(service):
    post(service, "freeze", target="click")
    post(service, "freeze", target="conversion")
    post(service, "unfreeze", target="click")

    newest_first = service.http.get("/v1/admin/audit").json()["entries"]
    assert [(entry["before"], entry["after"]) for entry in newest_first] == [
        (["click", "conversion"], ["conversion"]),
        (["click"], ["click", "conversion"]),
        ([], ["click"]),
    ]


def test_damage_thaws_nothing(service):
    post(service, "freeze", target="click")
    service.store.hset("sirocco:{maps}:frozen", "click", b"2:junk")

    assert FrozenTargets(service.store).read() == {"click": 0.0}


def test_versions_that_are_dropped_leave_nothing_behind(service, new):
    """However often one goes back and forth."""
    for factor in range(1, service.settings.versions_kept + 3):
        Versions(service.store, service.settings.versions_kept)
        answer = post(service, "rollback", version="none" if factor % 2 else new)
        assert answer.status_code in (200, 404)

    kept = {
        key.decode().rpartition(":")[2] for key in service.store.keys("sirocco:{maps}:version:*")
    }
    listed = {entry["version"] for entry in Versions(service.store, 1).history()}
    assert kept == listed


def test_a_diff_names_what_moves_most(service, old, new):
    found = service.http.get(f"{ADMIN}/versions/{old}/diff").json()

    assert (found["version"], found["against"]) == (old, new)
    click = found["targets"]["click"]
    assert (click["campaigns"], click["moved"]) == (2, 1)
    (shoes,) = click["largest"]
    assert shoes["campaign"] == "shoes"
    assert (shoes["before"], shoes["after"]) == pytest.approx(
        (shoes["score"] / 4, shoes["score"] / 2)
    )
    assert click["everybody_else"] == {"score": 0.0, "before": 0.0, "after": 0.0}
    assert found["targets"]["conversion"]["moved"] == 1
    reverse = service.http.get(f"{ADMIN}/versions/{new}/diff", params={"against": old, "limit": 0})
    assert reverse.json()["targets"]["click"]["largest"] == []


def test_a_diff_tells_versions_of_the_model_apart(service, new):
    names = ("shoes", named("shoes", "v2"), named("", "v2"))
    service.publish({"click": atlas_of(hats=0.5, **dict.fromkeys(names, 0.1))})

    largest = service.http.get(f"{ADMIN}/versions/{new}/diff").json()["targets"]["click"]["largest"]

    assert {(row["campaign"], row["model_version"]) for row in largest} == {
        ("shoes", None),
        ("shoes", "v2"),
        ("", "v2"),
    }


def test_a_rollback_of_a_target_is_one_of_its_frozen_campaigns_too(service, old, new):
    """Who goes back to a version gets that version; the campaign stays frozen, with its maps."""
    off = post(service, "rollback", version="identity", target="click", campaigns=["shoes"]).json()
    eventually(lambda: service.serving == off["version"])
    assert calibrated(service, "shoes") == 0.4

    back = post(service, "rollback", version=old, target="click").json()

    eventually(lambda: service.serving == back["version"])
    assert calibrated(service, "shoes") == 0.2
    assert {"click", "click:shoes"} <= set(FrozenTargets(service.store).read())
