"""compose.yaml: by the schema of the specification, and by rules for each service."""

import json

import pytest

from tests.deploy.files import DEPLOY, MISSING, ROOT, compose

DOCUMENT = compose()
SERVICES = DOCUMENT["services"]


def test_it_follows_the_specification() -> None:
    spec = pytest.importorskip("compose_spec", reason=f"compose-spec is {MISSING}")
    parsed = spec.PyCompose.from_json(json.dumps(DOCUMENT)).to_spec()
    assert set(parsed.services) == {"redis", "api", "worker", "prometheus", "grafana"}

    SERVICES["api"]["volumes"].append({"type": "no such type"})
    with pytest.raises(ValueError, match="type"):
        spec.PyCompose.from_json(json.dumps(DOCUMENT)).to_spec()
    SERVICES["api"]["volumes"].pop()


def test_each_service_is_hardened_bounded_and_watched() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == "unless-stopped", name
        assert {"mem_limit", "pids_limit", "logging"} <= service.keys(), name
        assert service["healthcheck"]["test"], name
        assert not service["image"].endswith(":latest"), name
        assert not {"privileged", "network_mode", "pid", "cap_add"} & service.keys(), name


def test_what_is_published_is_for_this_machine() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert DOCUMENT["networks"]["store"] == {"internal": True}
    inside = {name for name, service in SERVICES.items() if "store" in service["networks"]}
    assert inside == {"redis", "api", "worker"}


def test_secrets_are_files_and_every_file_that_is_named_is_declared() -> None:
    for name, service in SERVICES.items():
        given = service.get("environment", {})
        secret = {value for variable, value in given.items() if variable.endswith("_FILE")}
        assert not [each for each in given if each.endswith(("_KEY", "_URL", "PASSWORD"))], name
        mounted = {f"/run/secrets/{each}" for each in service.get("secrets", [])}
        assert secret <= mounted, name
        assert set(service.get("secrets", [])) <= DOCUMENT["secrets"].keys(), name
    made = (DEPLOY / "secrets.sh").read_text()
    assert all(name in made for name in DOCUMENT["secrets"])


def test_volumes_and_mounted_files_are_there() -> None:
    by_others = {"sirocco.json"}
    for service in SERVICES.values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            is_file = source.startswith("./")
            there = (DEPLOY / source).exists() if is_file else source in DOCUMENT["volumes"]
            assert there or source.rpartition("/")[2] in by_others, volume
    assert (DEPLOY / SERVICES["api"]["build"]["context"]).resolve() == ROOT
