"""The Job that `sirocco lake --executor kubernetes` prints, checked as the chart's objects are."""

import pytest

from app.lake.executors import PodOptions, indexed_job
from tests.deploy.files import MISSING, check_restricted

OPTIONS = PodOptions("sirocco-lake", "registry/sirocco:1", "keys", "1", "2Gi", 4, 8)


def job(options=OPTIONS):
    return indexed_job(["lake", "bins", "s3://b/log", "--output", "s3://b/lake"], options)


def test_it_is_an_object_of_kubernetes():
    schemas = pytest.importorskip("kubernetes_validate", reason=f"kubernetes-validate is {MISSING}")
    schemas.validate(job(), schemas.latest_version(), strict=True)


def test_its_pods_have_no_privileges():
    """As those of the chart: the restricted profile and more."""
    pod = job()["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    check_restricted(pod)
    assert container["resources"]["limits"] == {"memory": "2Gi"}


def test_each_pod_has_its_share_and_a_killed_one_begins_again():
    spec = job()["spec"]

    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert spec["backoffLimit"] >= spec["completions"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    arguments = spec["template"]["spec"]["containers"][0]["args"]
    assert arguments[-4:] == ["--index", "$(JOB_COMPLETION_INDEX)", "--of", "4"]
