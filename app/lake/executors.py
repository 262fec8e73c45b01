"""Who runs partition tasks: this process, some of this machine, the workers of Dask, or the pods of
an indexed Job of Kubernetes.

A worker that is killed costs nothing but its time: its task is begun again elsewhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import active_children, get_context
from typing import Any, Final

import orjson

from app.datasets.parts import first_line
from app.errors import FAILED, CommandError
from app.lake.tasks import PartitionTask, extra, run_task

Told = dict[str, Any]
_MOST_DEATHS: Final = 3
"""Times in a row that a child may be killed before any task is done."""
_AHEAD: Final = 2
"""Tasks given out for each worker."""
_RETRIES: Final = 5


def run_here(tasks: Sequence[PartitionTask]) -> Iterator[Told]:
    """One after the other in this process; what each tells."""
    for task in tasks:
        yield orjson.loads(run_task(task.spec()))


def run_in_processes(
    tasks: Sequence[PartitionTask], processes: int, started: Callable[[], None]
) -> Iterator[Told]:
    """In so many processes, each of which calls `started` first; as above, in any order.

    Raises CommandError where children are killed again and again before anything is done.
    """
    waiting, deaths = list(tasks), 0
    while waiting:
        pool = ProcessPoolExecutor(processes, get_context("spawn"), started)
        running: dict[Future[str], PartitionTask] = {}
        try:
            for done in _completed(pool, waiting, running, processes):
                deaths = 0
                yield orjson.loads(done)
        except BrokenProcessPool:
            deaths += 1
            if deaths == _MOST_DEATHS:
                raise CommandError(
                    f"a process was killed {deaths} times in a row before it was done:"
                    " is there memory enough? Fewer --processes need less",
                    FAILED,
                ) from None
            waiting = [*running.values(), *waiting]
        except (KeyboardInterrupt, GeneratorExit):
            # Nobody waits for what they are at, which may take minutes; the next run makes it.
            for child in active_children():
                child.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _completed(
    pool: ProcessPoolExecutor,
    waiting: list[PartitionTask],
    running: dict[Future[str], PartitionTask],
    processes: int,
) -> Iterator[str]:
    """What is done, while few tasks are given out at a time; both are what is left."""
    while waiting or running:
        while waiting and len(running) < _AHEAD * processes:
            # Given out and noted in one step: a broken pool refuses what comes then.
            running[pool.submit(run_task, waiting[0].spec())] = waiting[0]
            del waiting[0]
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            told = future.result()
            del running[future]
            yield told


def run_on_dask(
    tasks: Sequence[PartitionTask], address: str | None, workers: int
) -> Iterator[Told]:
    """On the workers of a scheduler at an address, or of one that is started on this machine with
    so many workers; as above, in any order."""
    distributed = extra("distributed", "dask", "--executor dask")
    cluster = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    try:
        with distributed.Client(address, **({} if address else cluster)) as client:
            yield from _on_workers(distributed, client, list(tasks))
    except OSError as error:
        raise CommandError(f"--dask-address {address}: {first_line(error)}", FAILED) from error
    except distributed.KilledWorker as error:
        raise CommandError(
            f"workers of Dask were killed again and again: {first_line(error)}", FAILED
        ) from error


def _on_workers(distributed: Any, client: Any, waiting: list[PartitionTask]) -> Iterator[Told]:
    breadth = max(8, len(client.scheduler_info(n_workers=-1)["workers"]))
    ahead = [waiting.pop(0) for _ in range(min(len(waiting), _AHEAD * breadth))]
    following = distributed.as_completed([_submitted(client, task) for task in ahead])
    for future in following:
        yield orjson.loads(future.result())
        if waiting:
            following.add(_submitted(client, waiting.pop(0)))


def _submitted(client: Any, task: PartitionTask) -> Any:
    # Two jobs may make the same result for different outputs.
    key = f"sirocco-{sha256(task.spec().encode()).hexdigest()}"
    return client.submit(run_task, task.spec(), key=key, retries=_RETRIES)


_USER = 10001
_LONGEST = 6 * 3600
_KEPT = 24 * 3600


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


_NONE: Final[Mapping[str, str]] = {}


def indexed_job(
    arguments: Sequence[str], options: PodOptions, variables: Mapping[str, str] = _NONE
) -> dict[str, Any]:
    """The manifest of a Job, whose pods run `sirocco` with these arguments, under these environment
    variables, and with which of how many they are. A pod that is killed is begun again, and does
    not do what is done."""
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
        "env": [{"name": name, "value": value} for name, value in variables.items()],
    }
    if options.secret is not None:
        container["envFrom"] = [{"secretRef": {"name": options.secret}}]
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
