"""compose.yaml: by the schema of the specification, and by rules for each service."""

import json
import subprocess

import pytest

from tests.deploy.files import DEPLOY, MISSING, compose

DOCUMENT = compose()
SERVICES = DOCUMENT["services"]


def test_it_follows_the_specification():
    spec = pytest.importorskip("compose_spec", reason=f"compose-spec is {MISSING}")
    parsed = spec.PyCompose.from_json(json.dumps(DOCUMENT)).to_spec()
    assert set(parsed.services) == {"redis", "api", "worker", "prometheus", "grafana"}

    SERVICES["api"]["volumes"].append({"type": "no such type"})
    with pytest.raises(ValueError, match="type"):
        spec.PyCompose.from_json(json.dumps(DOCUMENT)).to_spec()
    SERVICES["api"]["volumes"].pop()


def test_each_service_is_hardened_bounded_and_watched():
    for name, service in SERVICES.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == "unless-stopped", name
        assert {"mem_limit", "pids_limit", "logging"} <= service.keys(), name
        assert service["healthcheck"]["test"], name
        assert not service["image"].endswith(":latest"), name
        assert not {"privileged", "network_mode", "pid", "cap_add"} & service.keys(), name


def test_what_is_published_is_for_this_machine():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert DOCUMENT["networks"]["store"] == {"internal": True}
    inside = {name for name, service in SERVICES.items() if "store" in service["networks"]}
    assert inside == {"redis", "api", "worker"}


def test_secrets_are_files_and_every_file_that_is_named_is_declared():
    for name, service in SERVICES.items():
        given = service.get("environment", {})
        secret = {value for variable, value in given.items() if variable.endswith("_FILE")}
        assert not [each for each in given if each.endswith(("_KEY", "_URL", "PASSWORD"))], name
        mounted = {f"/run/secrets/{each}" for each in service.get("secrets", [])}
        assert secret <= mounted, name
        assert set(service.get("secrets", [])) <= DOCUMENT["secrets"].keys(), name


def test_the_secrets_are_made_once_and_agree(tmp_path):
    command = [DEPLOY / "secrets.sh", tmp_path, "redis.example"]
    subprocess.run(command, check=True)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    subprocess.run(command, check=True)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == made
    assert made.keys() == DOCUMENT["secrets"].keys()
    assert (
        made["redis.url"].strip()
        == f"redis://:{made['redis.auth'].split()[1]}@redis.example:6379/0"
    )
    assert len(made["admin.key"]) >= 32 <= len(made["signing.key"])
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o440}
