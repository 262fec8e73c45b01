"""What the processes of `sirocco serve` and `sirocco worker` do until they are stopped.

Each kind of process imports what it needs: a parent of API processes needs no web framework, an
API process nothing that fits.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from socket import socket
from typing import Any

from app.api.server.server import PublicAddressRefused
from app.cli.serving.settings import settings_with
from app.cli.serving.store import opened_store
from app.cli.signals import reloaded_by_sighup
from app.errors import FAILED, CommandError
from app.settings import Settings

_log = logging.getLogger(__name__)


def run_api(given: Mapping[str, Any], as_worker: str | None) -> None:
    """Serve until Ctrl-C or SIGTERM with the settings that were given, in one process or, for more
    `workers`, as the parent of several; `as_worker` is what such a parent passes on."""
    settings = settings_with(given)
    _log_to_stderr()
    with _ended_in_order():
        if as_worker is not None:
            _serve_as_worker(settings, *map(int, as_worker.split(",")))
        elif settings.workers > 1:
            _serve_as_parent(settings, given)
        else:
            _serve_alone(settings)


def run_worker_process(given: Mapping[str, Any]) -> None:
    """Work until Ctrl-C or SIGTERM with the settings that were given."""
    from app.worker.loop import run_worker

    settings = settings_with(given)
    _log_to_stderr()
    with opened_store(settings) as store_url:
        run_worker(settings, store_url)


def _log_to_stderr() -> None:
    """One line for every event worth knowing, refits among them."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )


def _serve_alone(settings: Settings) -> None:
    from app.api.server.server import run_server

    with reloaded_by_sighup(_warn_of_reload), opened_store(settings) as store_url:
        run_server(settings, store_url)


def _warn_of_reload() -> None:
    _log.warning("SIGHUP replaces no process that is alone: its port would close")


def _serve_as_parent(settings: Settings, given: Mapping[str, Any]) -> None:
    from app.cli.serving.serve_workers import serve_workers

    serve_workers(settings, given)


def _serve_as_worker(settings: Settings, listening: int, file: int, rows: int, row: int) -> None:
    from app.api.metrics.counters import LayoutsDiffer
    from app.api.metrics.workers import WorkerSlot
    from app.api.server.server import run_worker

    place = WorkerSlot.shared(file, rows, row)
    try:
        with socket(fileno=listening) as listener:
            run_worker(settings, settings.redis_url or "", place, listener)
    except LayoutsDiffer as error:
        raise CommandError(str(error), FAILED) from None


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the command well, once everything has been answered."""
    try:
        yield
    except PublicAddressRefused as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        return
