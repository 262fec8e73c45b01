"""An indexed Job of Kubernetes whose pods run the partitions of their index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_USER = 10001
_LONGEST = 6 * 3600
_KEPT = 24 * 3600
_RETRIES = 5


@dataclass(frozen=True, slots=True)
class PodOptions:
    """What pods are made of: the image, the Secret whose keys become environment variables (such as
    AWS_ACCESS_KEY_ID), what each may take, and how many there are and run at a time."""

    name: str
    image: str
    secret: str | None
    cpu: str
    memory: str
    pods: int
    parallelism: int


def indexed_job(arguments: Sequence[str], options: PodOptions) -> dict[str, Any]:
    """The manifest of a Job, whose pods run `sirocco` with these arguments and with which of how
    many they are. A pod that is killed is begun again, and does not do what is done."""
    index = ["--index", "$(JOB_COMPLETION_INDEX)", "--of", str(options.pods)]
    labels = {
        "app.kubernetes.io/name": "sirocco",
        "app.kubernetes.io/component": "lake",
        "app.kubernetes.io/instance": options.name,
    }
    container = {
        "name": "lake",
        "image": options.image,
        "args": [*arguments, *index],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": options.cpu, "memory": options.memory},
            "limits": {"memory": options.memory},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        **_environment(options.secret),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": options.name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": options.pods,
            "parallelism": min(options.parallelism, options.pods),
            # Of the Job as a whole: some pods may be evicted often, none of them must end it.
            "backoffLimit": _RETRIES * options.pods,
            "activeDeadlineSeconds": _LONGEST,
            "ttlSecondsAfterFinished": _KEPT,
            "template": {"metadata": {"labels": labels}, "spec": _pod(container)},
        },
    }


def _environment(secret: str | None) -> Mapping[str, Any]:
    return {} if secret is None else {"envFrom": [{"secretRef": {"name": secret}}]}


def _pod(container: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [dict(container)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "2Gi"}}],
    }
