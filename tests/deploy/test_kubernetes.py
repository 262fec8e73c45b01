"""The chart as Helm renders it, against Kubernetes' own schemas and the restricted profile."""

from typing import Any

import pytest
import yaml

from tests.deploy.files import CHART, DEPLOY, MISSING, check_restricted, objects, pods

helm = pytest.importorskip("helm_python", reason=f"helm-python-sdk is {MISSING}")
schemas = pytest.importorskip("kubernetes_validate", reason=f"kubernetes-validate is {MISSING}")

EVERYTHING: dict[str, Any] = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus", "role": "alerts"}},
    "api": {"autoscaling": {"enabled": True}},
    "settings": {"SIROCCO_TARGETS": "click,install", "SIROCCO_MAX_BODY_BYTES": 16777216},
    "networkPolicy": {"egress": [{"ports": [{"port": 443}]}]},
}
OWN_SERVERS: dict[str, Any] = {
    "redis": {"enabled": False, "port": 6380, "files": ["redis-ca.pem"]},
    "worker": {"replicas": 2},
    "settings": {"SIROCCO_CLICK_LOG_URL": "s3://clicks/sirocco"},
    "image": {"digest": "sha256:" + "0" * 64},
}
OF_THE_OPERATOR = {"ServiceMonitor", "PrometheusRule"}
VERSIONS = ("1.27", "1.31", schemas.latest_version())


def one(made: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (e for e in made if e["kind"] == kind and e["metadata"]["name"] == name)
    return found


def test_helm_finds_no_fault():
    found = helm.lint(str(CHART))

    assert found["errors"] == []
    assert [each["error"] for each in found["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("values", [{}, EVERYTHING, OWN_SERVERS], ids=["plain", "all", "own"])
def test_kubernetes_knows_every_field(values):
    made = objects(**values)
    for each in made:
        if each["kind"] not in OF_THE_OPERATOR:
            for version in VERSIONS:
                schemas.validate(each, version, strict=True)
    names = [(each["kind"], each["metadata"]["name"]) for each in made]
    assert len(set(names)) == len(names)
    made[0]["spec" if "spec" in made[0] else "data"] = 1
    with pytest.raises(schemas.ValidationError):
        schemas.validate(made[0], VERSIONS[0], strict=True)


@pytest.mark.parametrize("values", [{}, EVERYTHING, OWN_SERVERS], ids=["plain", "all", "own"])
def test_every_container_is_restricted(values):
    for pod in pods(objects(**values)).values():
        check_restricted(pod)
        kinds = {"name", "configMap", "emptyDir", "persistentVolumeClaim", "secret"}
        assert all(volume.keys() <= kinds for volume in pod["volumes"])
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert "livenessProbe" in container
            assert not container["image"].endswith(":latest")


def test_secrets_come_as_files_that_each_pod_needs():
    made = objects(**EVERYTHING)
    wanted = {
        "api": {"redis.url", "admin.key"},
        "worker": {"redis.url", "signing.key"},
        "redis": {"redis.auth"},
    }
    for component, pod in pods(made).items():
        (secret,) = (volume["secret"] for volume in pod["volumes"] if "secret" in volume)
        assert {item["key"] for item in secret["items"]} == wanted[component]
        assert secret["defaultMode"] == 0o440
        assert "secretKeyRef" not in str(pod)
    assert not [each for each in made if each["kind"] == "Secret"]


def test_certificates_are_files_of_the_secret_that_api_and_worker_get():
    for name, pod in pods(objects(**OWN_SERVERS)).items():
        (secret,) = (volume["secret"] for volume in pod["volumes"] if "secret" in volume)
        files = {item["key"]: item["path"] for item in secret["items"]}
        assert files["redis-ca.pem"] == "redis-ca.pem", name


def test_credentials_of_an_object_store_are_a_file_that_the_worker_gets():
    env = {"AWS_SHARED_CREDENTIALS_FILE": "/run/secrets/aws", "AWS_REGION": "eu-west-1"}
    worker = {**OWN_SERVERS["worker"], "env": env, "files": ["aws"]}
    made = pods(objects(**{**OWN_SERVERS, "worker": worker}))

    given = {one["name"]: one.get("value") for one in made["worker"]["containers"][0]["env"]}
    (secret,) = (each["secret"] for each in made["worker"]["volumes"] if "secret" in each)
    assert given.items() >= env.items()
    assert {"key": "aws", "path": "aws"} in secret["items"]
    assert "/run/secrets/aws" not in str(made["api"])


def test_the_memory_of_redis_follows_what_it_may_hold():
    """A limit that stayed behind would have it killed, again and again while it loads its file."""
    (redis,) = pods(objects(redis={"maxmemory": "8gb"}))["redis"]["containers"]

    assert redis["resources"]["requests"] == {"cpu": "500m", "memory": "8Gi"}
    assert redis["resources"]["limits"] == {"memory": "16Gi"}


def test_the_prometheus_operator_gets_every_rule_under_the_labels_that_it_selects():
    made = objects(**EVERYTHING)
    kinds = [each["kind"] for each in objects()]
    rules = {
        name: one(made, "PrometheusRule", f"sirocco-{name}") for name in ("alerts", "recording")
    }
    monitor = one(made, "ServiceMonitor", "sirocco")

    for name, rule in rules.items():
        assert rule["spec"] == yaml.safe_load((DEPLOY / f"prometheus/{name}.yaml").read_text())
        assert rule["metadata"]["labels"].items() >= {("release", "prometheus"), ("role", "alerts")}
        assert rule["metadata"]["labels"]["app.kubernetes.io/instance"] == "sirocco"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= (
        one(made, "Service", "sirocco")["metadata"]["labels"].items()
    )
    assert not OF_THE_OPERATOR & {*kinds}


def test_refits_of_very_many_campaigns_have_room_wherever_the_click_log_is():
    """Some 10 kB of files a campaign: beyond the limit of its volume a pod is evicted."""
    storage = {"worker": {"replicas": 2, "storage": {"size": "30Gi"}}}
    (data,) = (v for v in pods(objects(**OWN_SERVERS | storage))["worker"]["volumes"][1:])

    assert data == {"name": "data", "emptyDir": {"sizeLimit": "30Gi"}}


def test_policies_let_in_and_out_what_is_needed():
    plain, own = objects(), objects(**OWN_SERVERS)
    redis = one(plain, "NetworkPolicy", "sirocco-redis")["spec"]
    who = [peer["podSelector"]["matchLabels"] for peer in redis["ingress"][0]["from"]]

    assert [each["app.kubernetes.io/component"] for each in who] == ["api", "worker"]
    assert "egress" not in redis
    assert "ingress" not in one(plain, "NetworkPolicy", "sirocco-worker")["spec"]
    out = one(own, "NetworkPolicy", "sirocco-api")["spec"]["egress"]
    assert out[1] == {"ports": [{"port": 6380}]}
    assert not [each for each in own if each["metadata"]["name"] == "sirocco-redis"]


def test_settings_and_scale_reach_the_pods():
    made = objects(**EVERYTHING)
    given = {
        each["name"]: each.get("value") for each in pods(made)["worker"]["containers"][0]["env"]
    }

    assert given["SIROCCO_TARGETS"] == "click,install"
    assert given["SIROCCO_MAX_BODY_BYTES"] == "16777216"
    assert "replicas" not in one(made, "Deployment", "sirocco-api")["spec"]
    assert one(objects(), "Deployment", "sirocco-api")["spec"]["replicas"] == 2
    assert one(objects(), "PersistentVolumeClaim", "sirocco-worker")
    assert "@sha256:" in pods(objects(**OWN_SERVERS))["api"]["containers"][0]["image"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"settings": {"SIROCCO_SIGNING_KEY": "in the clear"}}, "SIROCCO_SIGNING_KEY"),
        ({"settings": {"siroco_targets": "click"}}, "siroco_targets"),
        ({"api": {"drainSeconds": 5}}, "drainSeconds"),
        ({"image": {"tag": "latest"}}, "tag"),
        ({"worker": {"replicas": 2}}, "worker.replicas"),
        ({"replicas": 3}, "replicas"),
        # SIROCCO_WORKERS would be 0.
        ({"api": {"resources": {"requests": {"cpu": None}}}}, "cpu"),
        ({"worker": {"env": {"AWS_SECRET_ACCESS_KEY": "in the clear"}}}, "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_wrong_values_are_refused_by_name(values, field):
    with pytest.raises(helm.HelmError, match=field):
        objects(**values)
