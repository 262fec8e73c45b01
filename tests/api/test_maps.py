"""The maps themselves: one as JSON, all of a target as bytes with an ETag; ids of campaigns."""

import pytest

from calibrators import Atlas, CalibrationMap
from tests.api.problems import problem


def test_a_map_is_shown_with_its_knots(service, atlas):
    version = service.publish({"click": atlas}, as_of=1_767_225_600.0)

    assert service.http.get("/v1/maps/click/shoes").json() == {
        "target": "click",
        "campaign": "shoes",
        "version": version,
        "as_of": 1_767_225_600.0,
        "level": "campaign",
        "calibrator": None,
        "schema_version": 1,
        "knots": [0.0, 0.2, 1.0],
        "values": [0.0, 0.1, 0.9],
    }


def test_the_map_shown_is_the_one_that_serves(lasting, published, atlas):
    """A campaign without a map of its own shows the target's."""
    shown = lasting.http.get("/v1/maps/click/un/seen").json()

    assert (shown["campaign"], shown["level"]) == ("un/seen", "target")
    assert CalibrationMap(shown["knots"], shown["values"]) == atlas.map_of("un/seen")


def test_before_the_first_version_the_identity_is_shown(shared_service):
    shown = shared_service.http.get("/v1/maps/conversion/a").json()

    assert (shown["version"], shown["as_of"], shown["level"]) == ("none", None, "identity")
    assert CalibrationMap(shown["knots"], shown["values"]) == CalibrationMap.identity()


def test_the_atlas_is_downloaded_in_its_documented_bytes(lasting, published, atlas):
    answer = lasting.http.get("/v1/atlas/click")

    assert answer.content == atlas.to_bytes()
    assert answer.headers["content-type"] == "application/vnd.sirocco.atlas"
    assert answer.headers["etag"] == f'"{published}-click"'
    assert answer.headers["sirocco-version"] == published
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_an_atlas_that_is_known_is_not_sent_again(lasting, published, form):
    etag = lasting.http.get("/v1/atlas/click").headers["etag"]

    answer = lasting.http.get("/v1/atlas/click", headers={"If-None-Match": form.format(etag)})

    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == etag


def test_another_version_is_sent(service, version):
    etag = service.http.get("/v1/atlas/click").headers["etag"]
    service.publish({"click": Atlas.build({"new": CalibrationMap.identity()})})

    answer = service.http.get("/v1/atlas/click", headers={"If-None-Match": etag})

    assert answer.status_code == 200
    assert Atlas.from_bytes(answer.content).campaigns == ("new",)
    assert answer.headers["etag"] != etag


def test_etags_of_targets_differ(lasting, published):
    etag = lasting.http.get("/v1/atlas/click").headers["etag"]

    answer = lasting.http.get("/v1/atlas/conversion", headers={"If-None-Match": etag})

    assert answer.status_code == 200
    assert Atlas.from_bytes(answer.content).level("a") == "identity"


@pytest.mark.parametrize("path", ["/v1/maps/view/a", "/v1/atlas/view", "/v1/atlas/view/ids"])
def test_an_unknown_target_is_not_found(refusing, path):
    content = problem(refusing.http.get(path), 404, "not-found")

    assert content["detail"] == 'target = "view": unknown target; known are click, conversion'


def test_the_ids_of_campaigns_are_listed(lasting, published):
    answer = lasting.http.get("/v1/atlas/click/ids")

    content = answer.json()
    assert (content["target"], content["version"]) == ("click", published)
    assert content["campaigns"] == ["hats", "shoes"]
    assert int(content["dictionary"], 16) > 0
    assert len(content["dictionary"]) == 16
    assert answer.headers["etag"] == f'W/"{content["dictionary"]}-click"'
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["sirocco-version"] == published


def test_a_list_that_is_known_is_not_sent_again(service, version):
    """Also not after a refit of the same campaigns, when only the version is another."""
    etag = service.http.get("/v1/atlas/click/ids").headers["etag"]
    maps = {"hats": CalibrationMap.identity(), "shoes": CalibrationMap.identity()}
    later = service.publish({"click": Atlas.build(maps)})

    for known in (etag, f'W/"other", {etag}', "*"):
        answer = service.http.get("/v1/atlas/click/ids", headers={"If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b""), known
        assert (answer.headers["etag"], answer.headers["sirocco-version"]) == (etag, later)


def test_another_list_of_campaigns_is_sent(service, version):
    etag = service.http.get("/v1/atlas/click/ids").headers["etag"]
    service.publish({"click": Atlas.build({"new": CalibrationMap.identity()})})

    answer = service.http.get("/v1/atlas/click/ids", headers={"If-None-Match": etag})

    assert answer.json()["campaigns"] == ["new"]
    assert answer.headers["etag"] != etag


def test_before_the_first_version_nobody_has_an_id(shared_service):
    content = shared_service.http.get("/v1/atlas/conversion/ids").json()

    assert (content["version"], content["campaigns"]) == ("none", [])
