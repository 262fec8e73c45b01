"""`sirocco serve`.

SIGHUP asks for a reload, unless it tells that the terminal is gone.
What a long-lived process says about itself.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from socket import socket
from types import FrameType
from typing import Annotated, Any

import typer

from app.api.server.server import PublicAddressRefused
from app.cli import options
from app.cli.serving.settings import settings_with
from app.cli.serving.store import opened_store
from app.errors import FAILED, CommandError
from app.settings import Settings


class Reload:
    """Whether somebody asks for a reload: no lock, for a signal may interrupt who holds it."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self) -> None:
        """Ask for one; to ask again before it is taken changes nothing."""
        self._asked = True

    def taken(self) -> bool:
        """Whether somebody has asked since the last time."""
        if not self._asked:
            return False
        self._asked = False
        return True


@contextmanager
def hang_ups(reload: Callable[[], None]) -> Iterator[None]:
    """Inside, SIGHUP calls `reload`; once our terminal is gone, it ends us as SIGTERM does.

    Under nohup the terminal may go.
    """
    before = signal.getsignal(signal.SIGHUP)
    needs_terminal = before != signal.SIG_IGN and _has_terminal()

    def hang_up(number: int, frame: FrameType | None) -> None:
        if needs_terminal and not _has_terminal():
            # A shell and the kernel may both tell of one end.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.raise_signal(signal.SIGTERM)
        else:
            reload()

    signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _has_terminal() -> bool:
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def log_to_stderr() -> None:
    """One line for every event worth knowing, refits among them."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )


_log = logging.getLogger(__name__)

# How a parent tells a worker: numbers of its socket, its file, the file's rows and the row.
_AsWorker = Annotated[str | None, typer.Option("--as-worker", hidden=True)]


def serve(
    host: options.Host = None,
    port: options.Port = None,
    redis_url: options.RedisUrl = None,
    data_dir: options.DataDir = None,
    allow_public: options.AllowPublic = None,
    workers: options.Workers = None,
    as_worker: _AsWorker = None,
) -> None:
    """Run the API: it answers /v1/calibrate and stores events.

    Run as many as you like on one Redis, beside at least one `sirocco worker`.
    With --workers, a parent starts so many processes that share the port, and
    starts again what dies. SIGHUP to the parent replaces one after the other
    without refusing a connection; one process alone goes on as it is. SIGTERM
    ends all when they have answered.

    [bold]Examples[/bold]

      sirocco serve --redis-url redis://cache:6379/0
      sirocco serve --port 8081 --workers 4
    """
    given = {
        "host": host,
        "port": port,
        "redis_url": redis_url,
        "data_dir": data_dir,
        "allow_public": allow_public,
        "workers": workers,
    }
    settings = settings_with(given)
    log_to_stderr()
    with _ended_in_order():
        if as_worker is not None:
            _serve_as_worker(settings, *map(int, as_worker.split(",")))
        elif settings.workers > 1:
            _serve_as_parent(settings, given)
        else:
            _serve_alone(settings)


# Each kind of process pays for importing what it needs: a parent needs no web framework.


def _serve_alone(settings: Settings) -> None:
    from app.api.server.server import run_server

    with hang_ups(_goes_on), opened_store(settings) as store_url:
        run_server(settings, store_url)


def _goes_on() -> None:
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
