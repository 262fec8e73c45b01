"""The files of deploy/, read as their programs read them."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "kubernetes"
MISSING = "not installed: .ci/run says how to install what checks deploy/"


def tool(name: str) -> str:
    """A program beside our Python; the test is skipped where it is not."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.skip(f"{name} is {MISSING}")
    return str(path)


def compose() -> dict[str, Any]:
    """compose.yaml with its anchors merged."""
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return read


def objects(**values: Any) -> list[dict[str, Any]]:
    """What Helm makes of the chart for the release `sirocco`."""
    helm = pytest.importorskip("helm_python", reason=f"helm-python-sdk is {MISSING}")
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values)
        made = chart.render(values, name="sirocco", namespace="ads")
    texts = [text for name, text in sorted(made.items()) if name.endswith(".yaml")]
    return [found for text in texts for found in yaml.safe_load_all(text) if found]


def pods(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod of each workload, by its component."""
    found = [each["spec"]["template"] for each in made if "template" in each.get("spec", {})]
    return {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"] for each in found
    }


def check_restricted(pod: dict[str, Any]) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted and more."""
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


@cache
def unit(name: str) -> list[tuple[str, str]]:
    """The options of a systemd unit in order."""
    lines = (DEPLOY / f"systemd/sirocco-{name}.service").read_text().splitlines()
    found = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return [(option, value) for option, _, value in found]
