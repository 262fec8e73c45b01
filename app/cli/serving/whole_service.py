"""Redis, API and worker together, as supervised processes."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.console import note, print_json
from app.cli.serving.client import ServiceClient
from app.cli.serving.processes import Child, Supervision
from app.cli.serving.serve import seconds_to_end
from app.cli.serving.settings import (
    addresses,
    environment_of,
    free_port,
    is_free,
    settings_with,
    show_addresses,
    url_of,
)
from app.cli.serving.store import embedded_store, external_store
from app.cli.signals import Reload, reloaded_by_sighup
from app.errors import CommandError
from app.log_lines import log_to_stderr

_TELL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WholeService:
    """A service that answers at `url`."""

    url: str
    supervision: Supervision
    worker: Child
    api: Child

    def reload(self) -> None:
        """Pass a SIGHUP on to the API, and end the worker, which the supervision starts again."""
        self.api.ask_to_reload()
        self.worker.ask_to_end()


@contextmanager
def whole_service(
    options: Mapping[str, Any], logs: Path | None = None, *, nice_worker: bool = True
) -> Iterator[WholeService]:
    """Run everything inside the block; `options` are fields of `Settings`, None for not given.

    The children write into files in the folder `logs`, or where this process writes. Without
    `nice_worker` the worker has our priority: for who waits for refits.
    """
    settings = settings_with(options)
    port = settings.port or free_port(settings.host)
    if not is_free(settings.host, port):
        where = f"port {port} of {settings.host}"
        raise CommandError(f"cannot listen on {where}: choose another with --port")
    external = external_store(settings)
    url = url_of(settings.host, port)
    with Supervision() as supervision:
        store = None if external else embedded_store(settings, supervision)
        store_url = store.url if store else str(external)
        environment = environment_of({**options, "port": port, "redis_url": store_url})
        # A refit has minutes, and a caller milliseconds: on the core they may share, the API first.
        worker = Child("worker", ("worker",), environment, _log(logs, "worker"), nice=nice_worker)
        seconds = seconds_to_end(settings)
        api = Child("API", ("serve",), environment, _log(logs, "serve"), stop_seconds=seconds)
        for child in (worker, api):
            supervision.add(child)
        _await_ready(url, supervision)
        yield WholeService(url, supervision, worker, api)


def _log(logs: Path | None, command: str) -> Path | None:
    return logs / f"{command}.log" if logs is not None else None


def _await_ready(url: str, supervision: Supervision) -> None:
    """Returns once the API is ready. However long that takes: a machine may be slow, and a file
    long, and who ends instead is away for longer. What cannot start at all is an error of
    `supervision`."""
    begun = told = time.monotonic()

    def is_ready() -> bool:
        nonlocal told
        if time.monotonic() > told + _TELL_SECONDS:
            told = time.monotonic()
            note(f"{url} is not ready after {told - begun:.0f} s; sirocco goes on waiting for it")
        return client.is_ready()

    with ServiceClient(url) as client:
        supervision.begin(is_ready)


def run_until_ctrl_c(given: Mapping[str, Any], *, as_json: bool) -> None:
    """Run everything with the settings that were given; SIGHUP reloads, Ctrl-C and SIGTERM end."""
    reload = Reload()
    settings = settings_with(given)
    if settings.log_format == "json":
        log_to_stderr(settings)
    try:
        with reloaded_by_sighup(reload.request), whole_service(given) as service:
            _announce(service.url, as_json=as_json)
            reload.watch(service.supervision.look, service.reload)
    except KeyboardInterrupt:
        note("sirocco is down")


def _announce(url: str, *, as_json: bool) -> None:
    if as_json:
        print_json(addresses(url))
        return
    note("sirocco is up; Ctrl-C ends it")
    show_addresses(url)
